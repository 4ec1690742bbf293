"""Loops that are recurrent layers: LSTM, GRU and RNN of which a body computes one step.

What a body computes is found out by numbers: its matrices say what the layer could be, and the layer must give what the
body gives, for small, usual and very large numbers. How the body spells its gates is of no importance then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

from minnow.schema.errors import MinnowError
from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.interpreter import evaluate
from minnow.schema.ops.recurrent import activation_functions

Array = np.ndarray[Any, Any]

# What cells are made of. Anything else in a body makes it no layer, although numbers may agree.
_OPS = frozenset({"Gather", "MatMul", "Add", "Sub", "Mul", "Neg", "Split", "Slice", "Concat", "Sigmoid", "Tanh", "Relu",
                  "HardSigmoid", "Softsign", "Clip", "Min", "Max", "Relu6", "Div", "Abs", "Unsqueeze",
                  "Squeeze"})  # fmt: skip
_GATES = (("sigmoid", (), ()), ("hardsigmoid", (0.2,), (0.5,)), ("hardsigmoid", (1 / 6,), (0.5,)))
_INNER = (("tanh", (), ()), ("relu", (), ()), ("softsign", (), ()), ("affine", (1.0,), (0.0,)), ("sigmoid", (), ()))
_SCALES = (0.3, 2.0, 1000.0)
_MOST_NODES = 80

Values = dict[Value, Array]
Order = tuple[int, ...]
Choice = tuple[str, tuple[float, ...], tuple[float, ...]]


def recognize(
    b: Builder, body: Graph, carried: Sequence[Value], others: Sequence[Value], trips: Value,
    starts: dict[Value, int], is_step: Callable[[Value], bool],
) -> list[Value] | None:  # fmt: skip
    """The results of a loop as those of a recurrent layer; None when it is none.

    Args:
        b: builds in the graph around the loop.
        body: parameters (iteration, flag, carried..., others...), results (flag, carried..., rows...).
        carried, others: the operands.
        trips: how often the loop runs.
        starts: the first number of the parameters that count.
        is_step: whether a value of the body is the number of the round.
    """
    if len(body) > _MOST_NODES:
        return None
    found = _Loop(body, len(carried), starts, is_step)
    cell = found.cell()
    return None if cell is None else _layer(b, found, cell, carried, others, trips)


@dataclass
class _Cell:
    """What a layer is: matrices with the gates in the order of our ops, biases, functions."""

    op: str
    w: Array
    r: Array
    bias: Array
    functions: tuple[Choice, ...]
    attrs: dict[str, Any]


class _Loop:
    """A body, and the numbers that it gives."""

    def __init__(self, body: Graph, n: int, starts: dict[Value, int], is_step: Callable[[Value], bool]) -> None:
        self.body = body
        self.starts = starts
        self.is_step = is_step
        self.params = body.params[2 : 2 + n]
        self.nexts = body.outputs[1 : 1 + n]
        self.rows = body.outputs[1 + n :]
        self.others = body.params[2 + n :]
        wanted = [v for p, v in zip(self.params, self.nexts, strict=True) if p not in starts]
        self.live = _ancestors([*wanted, *self.rows])
        self.states = [p for p in self.params if p not in starts and p in self.live]

    def cell(self) -> _Cell | None:
        """The cell of the layer."""
        nodes = [n for n in self.body if any(v in self.live for v in n.outputs)]
        read = [p for p in self.others if p in self.live]
        if any(n.op not in _OPS for n in nodes) or len(read) != 1 or len(self.states) not in (1, 2):
            return None
        (self.sequence,) = read
        if any(p.type.rank != 2 or not p.type.dtype.is_float for p in self.states) or self.sequence.type.rank != 3:
            return None
        steps = {n.output for n, _ in self.sequence.uses if n.output in self.live}
        for step in steps:
            node = step.producer
            if node is None or node.op != "Gather" or node.attrs.get("axis", 0) or not self.is_step(node.input(1)):
                return None
        terms: list[tuple[Value, Array, Value]] = []  # what is multiplied, by what, and the product
        rest: list[Any] = []
        for n in nodes:
            if n.op == "MatMul":
                factors = self._factors(n.input(0), _known(n.input(1)), steps)
                terms += [(x, matrix, n.output) for x, matrix in factors]
                rest += [] if factors else [n]
        of_x, of_state = ([t for t in terms if t[0] in of] for of in (steps, set(self.states)))
        if len(of_x) != 1 or len(of_state) != 1 or len(rest) > 1 or any(_known(n.input(1)) is None for n in rest):
            return None
        ((x, w, of_x_end),), ((self.h, r, of_h_end),) = of_x, of_state
        self.memory = next((p for p in self.states if p is not self.h), None)
        hidden = r.shape[0]
        try:
            self._run(w.shape[0], hidden)
        except (MinnowError, ValueError):
            return None
        x_end, h_end = _sum(of_x_end), _sum(of_h_end)
        if x_end is h_end:
            whole = self._is_sum(x_end, [(x, w), (self.h, r)])
        else:
            whole = self._is_sum(x_end, [(x, w)]) and self._is_sum(h_end, [(self.h, r)])
        if not whole:
            return None
        if self.memory is not None:
            return self._lstm(w, r, x_end, hidden) if x_end is h_end and not rest else None
        if w.shape[1] == hidden and x_end is h_end and not rest:
            return self._rnn(w, r, x_end)
        if w.shape[1] == 3 * hidden and x_end is not h_end:
            return self._gru(w, r, x_end, h_end, rest, hidden)
        return None

    def _factors(self, x: Value, matrix: Array | None, steps: set[Value]) -> list[tuple[Value, Array]]:
        """Inputs and states in a product with a matrix, with the rows that are theirs; nothing if it has others."""
        node = x.producer
        parts = [x]
        if node is not None and node.op == "Concat" and node.attrs["axis"] in (1, -1):
            parts = [v for v in node.inputs if v is not None]
        widths = [None if v.type.shape is None else v.type.shape[-1] for v in parts]
        if matrix is None or any(v not in steps and v not in self.states for v in parts):
            return []
        if len(parts) == 1:
            return [(x, matrix)]
        if not all(isinstance(d, int) for d in widths) or sum(d for d in widths if isinstance(d, int)) != len(matrix):
            return []
        ends = np.cumsum([d for d in widths if isinstance(d, int)])[:-1]
        return list(zip(parts, np.split(matrix, ends.tolist()), strict=True))

    # ---- numbers

    def _run(self, features: int, hidden: int) -> None:
        """The values of the body for zeros, and for random numbers of several scales."""
        rng = np.random.default_rng(0)
        self.runs: list[Values] = []
        batch = self.h.type.shape[0] if self.h.type.shape else 2
        batch = batch if isinstance(batch, int) else 2
        for scale in (0.0, *_SCALES):
            given = []
            for p in self.body.params:
                shape = tuple(d if isinstance(d, int) else 1 for d in p.type.shape or ())
                numbers = np.zeros((), p.type.dtype.numpy)
                if p in self.states:
                    shape = (batch, hidden)
                    numbers = (rng.standard_normal(shape) * scale).astype(numbers.dtype)
                elif p is self.sequence:
                    shape = (shape[0], batch, features)
                    numbers = (rng.standard_normal(shape[1:]) * scale).astype(numbers.dtype)
                given.append(np.broadcast_to(numbers, shape))
            values: Values = {}
            evaluate(self.body, given, values)
            self.runs.append(values)

    def _bias(self, end: Value) -> Array:
        """What a sum is where inputs and states are 0."""
        return np.asarray(self.runs[0][end][0], np.float64)

    def _is_sum(self, end: Value, terms: Sequence[tuple[Value, Array]]) -> bool:
        """Whether a value is the sum of these products, and of numbers that are always the same."""
        bias = self._bias(end)
        return self._agree(lambda values: sum((values[x] @ m for x, m in terms), bias), end)

    def _agree(self, make: Callable[[Values], Array], wanted: Value) -> bool:
        for values in self.runs[1:]:
            expected = values[wanted].astype(np.float64)
            with np.errstate(all="ignore"):
                got = make(values)
            scale = max(float(np.abs(expected).max()), 1e-3)
            if got.shape != expected.shape or not bool(np.all(np.abs(got - expected) <= 2e-5 * scale)):
                return False
        return True

    def _next(self, param: Value) -> Value:
        return self.nexts[self.params.index(param)]

    # ---- cells

    def _lstm(self, w: Array, r: Array, end: Value, hidden: int) -> _Cell | None:
        if w.shape[1] != 4 * hidden or self.memory is None:
            return None
        after_c, after_h = self._next(self.memory), self._next(self.h)
        extras, orders = (0.0, *_scalars(self.body)), permutations(range(4))
        for order, extra, (outer, inner) in product(orders, extras, _pairs()):
            if not self._agree(partial(_new_memory, end, self.memory, order, extra, outer, inner), after_c):
                continue
            for last in _INNER:
                if self._agree(partial(_new_output, end, after_c, order, outer, last), after_h):
                    parts = np.split(self._bias(end), 4)
                    parts[order[2]] = parts[order[2]] + extra
                    bias = np.concatenate([*(parts[k] for k in order), np.zeros(4 * hidden)])
                    return _Cell("LSTM", _ordered(w, order), _ordered(r, order), bias, (outer, inner, last), {})
        return None

    def _gru(self, w: Array, r: Array, x_end: Value, h_end: Value, rest: Sequence[Any], hidden: int) -> _Cell | None:
        after = self._next(self.h)
        late = _known(rest[0].input(1)) if rest else None
        if r.shape[1] != (2 if rest else 3) * hidden or (late is not None and late.shape != (hidden, hidden)):
            return None

        # With a matrix of its own, the candidate is the last gate.
        orders = permutations(range(3)) if late is None else ((0, 1, 2), (1, 0, 2))
        for order, (outer, inner) in product(orders, _pairs()):
            if self._agree(partial(_new_state, x_end, h_end, self.h, order, late, outer, inner), after):
                whole = r if late is None else np.concatenate([r, late], 1)
                x_bias = np.split(self._bias(x_end), 3)
                h_bias = [*np.split(self._bias(h_end), r.shape[1] // hidden), np.zeros(hidden)][:3]
                bias = np.concatenate([*(x_bias[k] for k in order), *(h_bias[k] for k in order)])
                attrs = {"linear_before_reset": late is None}
                return _Cell("GRU", _ordered(w, order), _ordered(whole, order), bias, (outer, inner), attrs)
        return None

    def _rnn(self, w: Array, r: Array, end: Value) -> _Cell | None:
        for function in (*_INNER, *_GATES[1:]):
            if self._agree(partial(_applied, end, function), self._next(self.h)):
                bias = self._bias(end)
                return _Cell("RNN", w.T, r.T, np.concatenate([bias, np.zeros_like(bias)]), (function,), {})
        return None


# ---- what cells compute, of the values that a body has given


def _parts(values: Values, end: Value, count: int) -> list[Array]:
    return np.split(values[end].astype(np.float64), count, axis=1)


def _applied(end: Value, choice: Choice, values: Values) -> Any:
    return _function(choice)(values[end].astype(np.float64))


def _new_memory(
    end: Value, memory: Value, order: Order, extra: float, outer: Choice, inner: Choice, values: Values
) -> Any:
    i, _, f, c = (_parts(values, end, 4)[k] for k in order)
    sigma = _function(outer)
    return sigma(f + extra) * values[memory].astype(np.float64) + sigma(i) * _function(inner)(c)


def _new_output(end: Value, after: Value, order: Order, outer: Choice, last: Choice, values: Values) -> Any:
    return _function(outer)(_parts(values, end, 4)[order[1]]) * _function(last)(values[after].astype(np.float64))


def _new_state(
    x_end: Value, h_end: Value, state: Value, order: Order, late: Array | None, outer: Choice, inner: Choice,
    values: Values,
) -> Any:  # fmt: skip
    z, reset, n = order
    x, h = _parts(values, x_end, 3), _parts(values, h_end, 3 if late is None else 2)
    before, sigma = values[state].astype(np.float64), _function(outer)
    keep, use = sigma(x[z] + h[z]), sigma(x[reset] + h[reset])
    candidate = use * h[n] if late is None else (use * before) @ late
    return (1 - keep) * _function(inner)(x[n] + candidate) + keep * before


# ---- what stands for the loop


def _layer(
    b: Builder, loop: _Loop, cell: _Cell, carried: Sequence[Value], others: Sequence[Value], trips: Value
) -> list[Value] | None:
    """The layer and what it gives for every result of the loop; None when it does not give all of them."""
    hidden = cell.r.shape[-1]
    last = [loop._next(loop.h), *([] if loop.memory is None else [loop._next(loop.memory)])]

    def source(value: Value) -> tuple[Value, bool]:
        node = value.producer
        if node is not None and node.op == "Unsqueeze" and tuple(node.attrs["axes"]) == (0,):
            return node.input(0), True
        return value, False

    wanted = [source(v) for p, v in zip(loop.params, loop.nexts, strict=True) if p not in loop.starts]
    if any(v not in last for v, _ in wanted) or any(v is not last[0] for v in loop.rows):
        return None
    if any(v.data is None and loop.params[i] not in loop.starts and v.type.rank != loop.params[i].type.rank
           for i, v in enumerate(carried)):  # fmt: skip
        return None
    x = others[loop.others.index(loop.sequence)]
    dtype = x.type.dtype
    length = x.type.shape[0] if x.type.shape else None
    if trips.data is None or int(trips.data.numpy()) != length:
        x = b.Slice(x, np.zeros(1, np.int64), b.Reshape(trips, np.array([1], np.int64)), np.zeros(1, np.int64))

    def first(param: Value) -> Value | None:
        value = carried[loop.params.index(param)]
        return None if _is_zero(value) else b.Unsqueeze(value, axes=(0,))

    weights = [b.const(np.ascontiguousarray(v[None]).astype(dtype.numpy)) for v in (cell.w, cell.r, cell.bias)]
    states = [first(loop.h), *([] if loop.memory is None else [first(loop.memory)])]
    names = tuple(name for name, _, _ in cell.functions)
    alpha, beta = (tuple(v for f in cell.functions for v in f[i]) for i in (1, 2))
    attrs: dict[str, Any] = {"hidden": hidden, **cell.attrs}
    usual = ("sigmoid", "tanh", "tanh") if cell.op == "LSTM" else ("sigmoid", "tanh") if cell.op == "GRU" else ("tanh",)
    if names != usual:
        attrs |= {"activations": names, "activation_alpha": alpha, "activation_beta": beta}
    y, *ends = getattr(b, cell.op)(x, *weights, None, *states, **attrs)
    final = dict(zip(last, ends, strict=True))
    flat: dict[Value, Value] = {}
    out: list[Value] = []
    for i, (param, value) in enumerate(zip(loop.params, loop.nexts, strict=True)):
        if param in loop.starts:
            start = b.const(np.array(loop.starts[param], np.int64))
            out.append(b.Cast(b.Add(start, trips), to=carried[i].type.dtype))
            continue
        state, stays = source(value)
        if not stays and state not in flat:
            flat[state] = b.Squeeze(final[state], axes=(0,))
        out.append(final[state] if stays else flat[state])
    rows = b.Squeeze(y, axes=(1,)) if loop.rows else None
    return out + [rows] * len(loop.rows)  # type: ignore[list-item]


# ---- graphs


def _ancestors(values: Sequence[Value]) -> set[Value]:
    seen: set[Value] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in seen and value.data is None:
            seen.add(value)
            if value.producer is not None:
                todo += [v for v in value.producer.inputs if v is not None]
    return seen


def _known(value: Value) -> Array | None:
    """The numbers of a matrix."""
    if value.data is None or value.type.rank != 2:
        return None
    return np.asarray(value.data.numpy(), np.float64)


def _sum(value: Value) -> Value:
    """The whole sum that a matrix product is part of; it may be a vector on the way, for a batch of one."""
    whole = value
    while len(value.uses) == 1:
        node = value.users[0]
        if node.op not in ("Add", "Squeeze"):
            break
        value = node.output
        whole = value if value.type.rank == 2 else whole
    return whole


def _scalars(body: Graph) -> list[float]:
    """Numbers that the body adds."""
    found: dict[float, None] = {}
    for node in body:
        for v in node.inputs if node.op == "Add" else ():
            if v is not None and v.data is not None and v.type.count == 1 and v.type.dtype.is_float:
                found[float(v.data.numpy().reshape(()))] = None
    return list(found)


def _is_zero(value: Value) -> bool:
    if value.data is not None:
        return not value.data.numpy().any()
    node = value.producer
    while node is not None and node.op in ("Expand", "Fill"):
        value = node.input(1 if node.op == "Fill" else 0)
        if value.data is not None:
            return not value.data.numpy().any()
        node = value.producer
    return False


def _ordered(matrix: Array, order: Sequence[int]) -> Array:
    """[inputs, gates * hidden] as [gates * hidden, inputs], with the gates in this order."""
    parts = np.split(matrix, len(order), axis=1)
    return np.concatenate([parts[k].T for k in order])


def _pairs() -> Iterator[tuple[Choice, Choice]]:
    return ((outer, inner) for outer in _GATES for inner in _INNER)


def _function(choice: Choice) -> Callable[[Array], Array]:
    name, alpha, beta = choice
    return activation_functions([name], alpha, beta)[0]
