"""Gradients of Vars by other Vars, without an optimizer."""

from __future__ import annotations

from typing import Any

from minnow.expr.names import named
from minnow.expr.var import Var
from minnow.schema.errors import UsageError


@named("nn", like="torch.autograd.grad", mnn=False)
def grad(outputs: Any, parameters: Any, output_diffs: Any = None) -> list[Var]:
    """The gradients of outputs, each times a factor per element, by Vars: parts of the graph, as any other Var.

    Args:
        outputs: a Var, such as a loss, or a list of Vars.
        parameters: the Vars to differentiate by, or one: placeholders, trainables, or what is computed of them.
        output_diffs: for each output what its elements count: a Var of its shape, or a list of them; None: 1.

    Returns:
        For each parameter a Var of its shape.

    Raises:
        UsageError: an argument is no Var, or no output is computed of a parameter: as where evaluation is not lazy.
        UnsupportedError: an op has no gradient.
    """
    from minnow.optim.derivative import computed_of  # only where it is asked for: modules do without
    from minnow.optim.optimizer import Grad

    variables, slopes = Grad().grad(outputs, output_diffs, parameters)
    used = computed_of([outputs] if isinstance(outputs, Var) else outputs)
    for i, variable in enumerate(variables):
        if not any(variable is v or _same(variable, v) for v in used):
            raise UsageError(
                f"no output is computed of parameter {i}, {variable!r}",
                hint="graphs are made after expr.lazy_eval(True); the outputs must be computed of this very Var",
            )
    return slopes


def _same(a: Var, b: Var) -> bool:
    return a._operation is not None and a._operation is b._operation and a._index == b._index
