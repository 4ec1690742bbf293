"""A function of the user that measures a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from minnow.schema.errors import MinnowError, UsageError

if TYPE_CHECKING:
    from minnow.runtime.session import Session


def metric_of(text: str) -> Callable[[Session], float]:
    """The user's function. Raises UsageError if there is none."""
    from runpy import run_path

    path, _, name = text.rpartition(":")
    if not path or not Path(path).is_file():
        raise UsageError(f"there is no file '{path or text}'", hint="metric is FILE.py:FUNCTION", where="metric")
    try:
        function = run_path(path).get(name)
    except Exception as e:
        raise UsageError("the file of the metric does not run", where=path, why=f"{type(e).__name__}: {e}") from e
    if not callable(function):
        raise UsageError(f"the file has no function '{name}'", where=path)

    def call(session: Session) -> float:
        try:
            score = float(function(session))
        except MinnowError:
            raise
        except Exception as e:
            raise UsageError(f"the metric '{name}' fails", where=path, why=f"{type(e).__name__}: {e}") from e
        if not np.isfinite(score):
            raise UsageError(
                f"the metric '{name}' gives {score}", where=path, hint="a finite number, larger being better"
            )
        return score

    return call
