"""GitLab's Code Quality report: findings that merge requests show beside the changed lines."""

from __future__ import annotations

import hashlib
import json

from minnow.report.formats import report
from minnow.report.formats._finding import Finding, findings
from minnow.report.formats._text import clipped, one_line
from minnow.workflow.result import Results

_SEVERITY = {"warning": "minor", "note": "info"}


@report("gitlab", "GitLab's Code Quality report, JSON", file="gl-code-quality-report.json")
def gitlab(results: Results) -> str:
    """A list of findings. A model that could not be converted at all is "critical", a wrong one "major"."""
    rows = [
        {
            "type": "issue",
            "check_name": found.rule.name,
            "description": clipped(f"{one_line(found.cell.name)}: {one_line(found.text)}", 2_000),
            "categories": ["Bug Risk" if found.level == "error" else "Compatibility"],
            "severity": _severity(found),
            "fingerprint": hashlib.sha256(f"{found.fingerprint}:{found.count}".encode()).hexdigest(),
            "location": {"path": found.path, "lines": {"begin": found.line}},
        }
        for found in findings(results)
    ]
    return json.dumps(rows, indent=1) + "\n"


def _severity(found: Finding) -> str:
    return "critical" if found.check.status == "error" else _SEVERITY.get(found.level, "major")
