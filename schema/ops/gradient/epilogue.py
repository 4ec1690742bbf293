"""What activations in convolutions and matrix products do to a gradient."""

from __future__ import annotations

from collections.abc import Callable

from minnow.schema.ops.epilogue import FUNCTIONS, attrs_of
from minnow.schema.registry.gradient import Step, Term


def finished(g: Step, activation: str, alpha: float | None, beta: float | None, plain: Callable[[], Term]) -> Term:
    """The gradient of the sum that was activated, which `plain` computes once more where it is needed."""
    if not activation:
        return g.dy
    if activation == "relu":
        return g.Where(g.y > 0.0, g.dy, 0.0)
    if activation == "relu6":
        return g.Where((g.y > 0.0) & (g.y < 6.0), g.dy, 0.0)
    op, attrs = FUNCTIONS[activation].op, attrs_of(activation, alpha, beta)
    (dz,) = g.through(lambda z: getattr(g, op.name)(z, **attrs), plain())
    assert dz is not None
    return dz
