"""JSON: everything, in the form of `Results.as_dict`; docs/ci-report.schema.json is its schema."""

from __future__ import annotations

import json
import math
from typing import Any

from minnow.report.formats import report
from minnow.workflow.result import Results


@report("json", "JSON, everything; `mnnconvert diff` compares two of them", file="report.json")
def document(results: Results) -> str:
    """The whole document. A number that JSON does not have (infinity, NaN) is null."""
    return json.dumps(_finite(results.as_dict()), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
