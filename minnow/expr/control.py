"""Control flow in graphs: branches and loops that depend on values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.expr.elementwise import _boolean
from minnow.expr.evaluation import build, is_structure
from minnow.expr.names import named
from minnow.expr.operation import Clock, Operation, apply, apply_one, ordered
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType, Graph, TensorType

Function = Callable[..., Any]


@named("expr", like="jax.lax.cond", mnn=False)
def cond(pred: Any, then_branch: Function, else_branch: Function) -> Any:
    """The results of one of two functions: of the first if `pred` is not 0.

    With lazy evaluation, or if `pred` has no value yet, both functions are called once, to make the two branches of an
    `If` in the graph, of which one is computed. Otherwise only the one that is needed is called.

    Args:
        pred: a single number.
        then_branch, else_branch: functions without arguments, which give a Var or a list of Vars; both the same number,
            of the same types.

    Raises:
        UsageError: `pred` is not a single number, or the branches give different results.
    """
    condition = _boolean(pred)
    if condition.size != 1:
        raise UsageError(f"pred has the shape {condition.shape}, it must be a single number")
    if not SETTINGS.lazy and condition._is_known():
        return _results(then_branch() if condition._value().item() else else_branch())[0]
    traces = [_Trace(function, []) for function in (then_branch, else_branch)]
    if traces[0].is_single != traces[1].is_single or len(traces[0].outputs) != len(traces[1].outputs):
        raise UsageError("the branches give different numbers of results")
    captured = list(dict.fromkeys(v for t in traces for v in t.captured))
    graphs = [t.graph(name, captured, []) for t, name in zip(traces, ("then", "else"), strict=True)]
    made = apply(
        "If", condition, *captured, then_branch=graphs[0], else_branch=graphs[1], n_outputs=len(traces[0].outputs)
    )
    return made[0] if traces[0].is_single else list(made)


@named("expr", like="jax.lax.while_loop", mnn=False)
def while_loop(cond: Function, body: Function, loop_vars: Any) -> list[Var]:
    """The loop variables after `body` was called on them as long as `cond` of them is not 0.

    With lazy evaluation, or if a variable has no value yet, both functions are called once or twice, to make a `Loop`
    in the graph.

    Args:
        cond: a function of the loop variables that gives a single number.
        body: a function of the loop variables that gives their next values, of the same shapes and types.
        loop_vars: their first values.

    Raises:
        UsageError: a function gives something else.
    """
    values = [as_var(v) for v in (loop_vars if isinstance(loop_vars, (list, tuple)) else [loop_vars])]
    if not SETTINGS.lazy and all(v._is_known() for v in values):
        while _single(cond(*values))._value().item():
            values = _next(body(*values), values)
        return values
    first = _boolean(_single(cond(*values)))
    formats = [v.data_format for v in values]
    params = [Var._placeholder(v._type(), f) for v, f in zip(values, formats, strict=True)]

    def step(*carried: Var) -> list[Var]:
        after = _next(body(*carried), values)
        return [_boolean(_single(cond(*after))), *after]

    trace = _Trace(step, params)
    for value, output in zip(values, trace.outputs[1:], strict=True):
        if value._type() != output._type():
            raise UsageError(f"a loop variable is {value._type()} before and {output._type()} after the body")
    counter = TensorType(DType.I64, ()), TensorType(DType.BOOL, ())
    graph = trace.graph("body", trace.captured, [*counter])
    scalar = apply("Reshape", first, Var._of(np.zeros(0, np.int64)))
    made = apply(
        "Loop", None, scalar, *values, *trace.captured, body=graph, num_carried=len(values), n_outputs=len(values)
    )
    for var, form in zip(made, formats, strict=True):
        var.data_format = form
    return list(made)


def _results(given: Any) -> tuple[Any, list[Var], bool]:
    is_single = not isinstance(given, (list, tuple))
    made = [as_var(v) for v in ([given] if is_single else given)]
    return (made[0] if is_single else made), made, is_single


def _single(value: Any) -> Var:
    var = as_var(value)
    if var.size != 1:
        raise UsageError(f"the condition has the shape {var.shape}, it must be a single number")
    return var


def _next(given: Any, like: Sequence[Var]) -> list[Var]:
    made = _results(given)[1]
    if len(made) != len(like):
        raise UsageError(f"the body gives {len(made)} values for {len(like)} loop variables")
    return [v._cast(old._dtype()) for v, old in zip(made, like, strict=True)]


class _Trace:
    """What a function computes of parameters and of Vars that are there already, which it captures."""

    def __init__(self, function: Function, params: Sequence[Var]) -> None:
        start, was_lazy = Clock.operations, SETTINGS.lazy
        SETTINGS.lazy = True
        try:
            _, self.outputs, self.is_single = _results(function(*params))
            self.outputs = [self._own(v, start) for v in self.outputs]
        finally:
            SETTINGS.lazy = was_lazy
        self._params = list(params)
        roots = [v._operation for v in self.outputs if v._operation is not None]
        self._order: list[Operation] = ordered(roots, lambda o: o.serial <= start)
        inside = set(self._order)
        given = set(self._params)
        used = [v for o in self._order for v in o.inputs if v is not None]
        self.captured = list(
            dict.fromkeys(v for v in used if v not in given and v._operation not in inside and not is_structure(v))
        )

    @staticmethod
    def _own(var: Var, start: int) -> Var:
        """A result of the graph itself: what is only handed on passes through an op."""
        if var._operation is not None and var._operation.serial > start:
            return var
        return apply_one("Identity", var)

    def graph(self, name: str, captured: Sequence[Var], leading: Sequence[TensorType]) -> Graph:
        """The closed graph, whose parameters are those of the types `leading`, its own, and the captured Vars."""
        leaves = [*(Var._placeholder(t, self.outputs[0].data_format) for t in leading), *self._params, *captured]
        ends = [(v._operation, v._index) for v in self.outputs if v._operation is not None]
        graph, _ = build(self._order, leaves, ends)
        graph.name = name
        return graph
