"""Verification: `verify(source, target)` runs the source model and the converted file, and compares the outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.runtime.verify.comparison import OutputComparison as OutputComparison
    from minnow.runtime.verify.verification import Verification as Verification
    from minnow.runtime.verify.verification import verify as verify

__all__ = ["OutputComparison", "Verification", "verify"]


def __getattr__(name: str) -> Any:
    if name == "OutputComparison":
        from minnow.runtime.verify.comparison import OutputComparison

        return OutputComparison
    if name in __all__:
        from minnow.runtime.verify import verification

        return getattr(verification, name)
    raise AttributeError(name)
