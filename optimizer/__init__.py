"""IR to IR: fewer and better nodes, same numbers. `optimize(model, level)` runs the pipeline of `pipeline.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.optimizer.pipeline import optimize as optimize

__all__ = ["optimize"]


def __getattr__(name: str) -> Any:
    if name == "optimize":
        from minnow.optimizer.pipeline import optimize

        return optimize
    raise AttributeError(name)
