"""Loops over time that are recurrent layers: each becomes the one node that it spells out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.passes.recurrent.form import (
    AS_IT_IS,
    Applied,
    Form,
    Forms,
    Function,
    Products,
    applied,
    factors_of,
    one_row,
    only,
    products,
    same_rows,
    split,
    total,
    width,
)
from minnow.optimizer.passes.recurrent.loop import Counted, NoMatchError
from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
_USUAL = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
_SYMMETRIC = ("sigmoid", "hardsigmoid")
"""Functions that are 1 - f(-x) as well."""

_MOST_NODES = 200


@graph_pass(level=1)
def fuse_recurrent_loops(graph: Graph) -> int:
    """Replaces loops that compute the cell of an LSTM, a GRU or a plain recurrent layer in each round.

    Given:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %n: f32[1,1], %y: f32[3,1,1] = Loop(i64[](3), _, %h, %x) {body=graph "b"(%t: i64[], %go: bool[], %s: f32[1,1], %all: f32[3,1,2]) {
            %now: f32[1,2] = Gather(%all, %t)
            %a: f32[1,1] = Linear(%now, f32[1,2](0.5, 0.25), f32[1](1.0))
            %b: f32[1,1] = Linear(%s, f32[1,1](2.0))
            %c: f32[1,1] = Add(%a, %b)
            %d: f32[1,1] = Tanh(%c)
            return %go, %d, %d
          }, num_carried=1}
          return %n, %y
        }
    Result:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %0: f32[1,1,1] = Unsqueeze(%h) {axes=(0,)}
          %1: f32[3,1,1,1], %2: f32[1,1,1] = RNN(%x, f32[1,1,2](0.5, 0.25), f32[1,1,1](2.0), f32[1,2](1.0, 0.0), _, %0) {hidden=1}
          %3: f32[1,1] = Squeeze(%2) {axes=(0,)}
          %4: f32[3,1,1] = Squeeze(%1) {axes=(1,)}
          return %3, %4
        }
    """  # noqa: E501
    return _fuse(graph, is_encodable)


@graph_pass(level=1, target="minnow")
def fuse_other_recurrent_loops(graph: Graph) -> int:
    """Does the same where the format has no such layer, as with other functions; its own runtime would run the loop.

    Given:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %n: f32[1,1], %y: f32[3,1,1] = Loop(i64[](3), _, %h, %x) {body=graph "b"(%t: i64[], %go: bool[], %s: f32[1,1], %all: f32[3,1,2]) {
            %now: f32[1,2] = Gather(%all, %t)
            %a: f32[1,1] = Linear(%now, f32[1,2](0.5, 0.25), f32[1](1.0))
            %b: f32[1,1] = Linear(%s, f32[1,1](2.0))
            %c: f32[1,1] = Add(%a, %b)
            %d: f32[1,1] = Relu(%c)
            return %go, %d, %d
          }, num_carried=1}
          return %n, %y
        }
    Result:
        graph g(%x: f32[3,1,2], %h: f32[1,1]) {
          %0: f32[1,1,1] = Unsqueeze(%h) {axes=(0,)}
          %1: f32[3,1,1,1], %2: f32[1,1,1] = RNN(%x, f32[1,1,2](0.5, 0.25), f32[1,1,1](2.0), f32[1,2](1.0, 0.0), _, %0) {hidden=1, activations=("relu",)}
          %3: f32[1,1] = Squeeze(%2) {axes=(0,)}
          %4: f32[3,1,1] = Squeeze(%1) {axes=(1,)}
          return %3, %4
        }
    """  # noqa: E501
    return _fuse(graph, lambda layer: True)


def _fuse(graph: Graph, may_stay: Callable[[Node], bool]) -> int:
    changes = 0
    for node in graph:
        if node.op == "Loop":
            with suppress(NoMatchError):
                _replace(graph, node, may_stay)
                changes += 1
    return changes


@dataclass
class Layer:
    """A layer that a loop spells out.

    Attributes:
        op: of the node.
        states: parameters of the body that hold h, and c of an LSTM.
        gates: what the functions of the gates are given, in the order of the op.
        functions: of the op.
        late: what the last gate of a GRU has of h, where the reset gate is a factor of that.
        linear_before_reset: of a GRU.
    """

    op: str
    states: Sequence[Value]
    gates: Sequence[Form]
    functions: Sequence[Function]
    late: Form | None = None
    linear_before_reset: bool = False


@dataclass
class Weights:
    """The operands: x[time, batch, features], w[gates, hidden, features], r[gates, hidden, hidden], b[2, gates, hidden]
    and the states before the first round, [batch, hidden]."""

    x: Value
    w: Array
    r: Array
    b: Array
    first: Sequence[Value]


class _Cell:
    """The body of a loop, in which layers are looked for."""

    def __init__(self, loop: Counted) -> None:
        self.loop = loop
        self.states = dict(loop.states())
        self.forms = Forms()
        self.order: dict[Value, int] = {}

    def layer(self) -> tuple[Layer, Weights]:
        """The first layer that the body computes in each round. Raises NoMatchError where there is none."""
        searches: tuple[Callable[[Value, Value], Iterator[Layer]], ...] = (self._lstm, self._gru, self._rnn)
        for h, after in self.states.items():
            for search in searches:
                with suppress(NoMatchError):
                    for found in search(h, after):
                        with suppress(NoMatchError):
                            return found, self._weights(found)
        raise NoMatchError

    # ---- what a layer needs

    def _weights(self, layer: Layer) -> Weights:
        """The operands, if all gates are sums of the row of this round and of h, each times a matrix."""
        hidden = width(self.states[layer.states[0]])
        if not hidden:
            raise NoMatchError
        parts = [self._parts(g, layer.states[0], hidden) for g in layer.gates]
        sequences = {x for _, _, x in parts if x is not None}
        rs = [r for _, r, _ in parts]
        if layer.late is not None:
            late_w, late_r, _ = self._parts(layer.late, layer.states[0], hidden)
            if late_w is not None or rs[-1] is not None:
                raise NoMatchError
            rs[-1] = late_r
        if len(sequences) != 1 or all(r is None for r in rs):
            raise NoMatchError
        (x,) = sequences
        features, first = width(x), [self.loop.outside[s] for s in layer.states]
        if not features or any(not _is_start(v, hidden, x) for v in first):
            raise NoMatchError
        b = np.zeros((2, len(parts), hidden))
        b[0] = [np.broadcast_to(g.bias, (hidden,)) for g in layer.gates]
        if layer.late is not None:
            b[int(layer.linear_before_reset), -1] += layer.late.bias
        w, r = (
            np.stack([np.zeros((hidden, n)) if m is None else m.T for m in matrices])
            for matrices, n in (([w for w, _, _ in parts], features), (rs, hidden))
        )
        return Weights(x, w, r, b, first)

    def _parts(self, form: Form, h: Value, hidden: int) -> tuple[Array | None, Array | None, Value | None]:
        """What the row of this round and what h is multiplied by, if anything, and the sequence of the row."""
        w: Array | None = None
        r: Array | None = None
        sequence: Value | None = None
        for value, matrix in form.terms.items():
            if isinstance(matrix, float) or matrix.shape[1] != hidden:
                raise NoMatchError
            if value is h:
                r = matrix
                continue
            x = self.loop.sequence_of(value)
            if x is None or sequence not in (None, x):
                raise NoMatchError
            w, sequence = matrix if w is None else w + matrix, x
        return w, r, sequence

    # ---- what layers look like

    def _sum(self, value: Value) -> Products:
        return products(value, {*self.states, *self.states.values()} - {value}, self.order)

    def _form(self, of: Applied) -> Form:
        """What the function is given."""
        return self.forms.of(of.of) + Form({}, np.array([of.offset]))

    def _lstm(self, h: Value, after: Value) -> Iterator[Layer]:
        """h' = f(o) * a(c'), c' = f(f) * c + f(i) * g(n)."""
        for o, seen in _pairs(self._sum(after)):
            output, last = applied(o), applied(seen) or Applied(AS_IT_IS, seen)
            for c, c_after in self.states.items():
                if c is h or output is None or one_row(last.of) is not one_row(c_after) or last.offset:
                    continue
                kept, entered = split(self._sum(c_after), c)
                forget = only(kept)
                keeps = None if forget is None else applied(forget)
                for i in factors_of(entered):
                    enters, (cell, rest) = applied(i), split(entered, i)
                    if rest or not keeps or not enters or not output.function == keeps.function == enters.function:
                        continue
                    n = only(cell)
                    found = None if n is None else applied(n)
                    form = self.forms.of_sum(cell) if found is None else self._form(found)
                    gates = [*(self._form(g) for g in (enters, output, keeps)), form]
                    inner = AS_IT_IS if found is None else found.function
                    yield Layer("LSTM", (h, c), gates, (enters.function, inner, last.function))

    def _gru(self, h: Value, after: Value) -> Iterator[Layer]:
        """h' = f(z) * h + (1 - f(z)) * g(n), or the other way round."""
        whole, state = self._sum(after), {(h,): 1.0}
        for z in factors_of(whole):
            update, (scaled, rest) = applied(z), split(whole, z)
            if update is None:
                continue
            gate = self._form(update)
            if total([(scaled, 1.0), (rest, 1.0)]) == state:
                candidate = rest
            elif rest == state and update.function.name in _SYMMETRIC:
                candidate, gate = total([(scaled, 1.0), (rest, 1.0)]), gate.scaled(-1.0)
            else:
                continue
            n = only(candidate)
            found = None if n is None else applied(n)
            if found is None:
                inside, inner = candidate, AS_IT_IS
            else:
                inside, inner = total([(self._sum(found.of), 1.0), ({(): found.offset}, 1.0)]), found.function
            for reset, own, late, linear in self._resets(h, inside):
                if reset.function == update.function:
                    gates, functions = [gate, self._form(reset), own], (update.function, inner)
                    yield Layer("GRU", (h,), gates, functions, late, linear)

    def _resets(self, h: Value, inside: Products) -> Iterator[tuple[Applied, Form, Form, bool]]:
        """The reset gate, what is apart from it, and what it is a factor of: of h with its matrix, or only of h."""
        for r in factors_of(inside):
            reset, (late, own) = applied(r), split(inside, r)
            if reset is not None:
                yield reset, self.forms.of_sum(own), self.forms.of_sum(late), True
        whole = self.forms.of_sum(inside)
        for value, matrix in whole.terms.items():
            rest = Form({v: m for v, m in whole.terms.items() if v is not value}, whole.bias)
            for r, other in _pairs(self._sum(value)):
                reset = applied(r)
                if other is h and reset is not None:
                    yield reset, rest, Form({h: matrix}, np.zeros(1)), False

    def _rnn(self, h: Value, after: Value) -> Iterator[Layer]:
        """h' = f(n)."""
        found = applied(after) or Applied(AS_IT_IS, after)
        yield Layer("RNN", (h,), [self._form(found)], (found.function,))


def _pairs(of: Products) -> Iterator[tuple[Value, ...]]:
    """The factors of a product of two, in both orders."""
    ((factors, n),) = of.items() if len(of) == 1 else (((), 0.0),)
    return permutations(factors) if len(factors) == 2 and n == 1 else iter(())


def _is_start(value: Value, hidden: int, x: Value) -> bool:
    return value.type.dtype is x.type.dtype and width(value) in (hidden, None) and same_rows(value, x)


# ---- what stands for the loop


def _replace(graph: Graph, node: Node, may_stay: Callable[[Node], bool]) -> None:
    if len(node.attrs["body"]) > _MOST_NODES:
        raise NoMatchError
    loop = Counted(node)
    layer, weights = _Cell(loop).layer()
    results = loop.results(layer.states)
    if loop.rounds is None and any(k == "last row" and not _is_zero(v) for k, v in results):
        raise NoMatchError
    b = Builder(graph, node, f"{node.origin} > fuse_recurrent_loops")
    x = loop.rows(b, weights.x)
    # What starts at 0 need not be said, if there are as many zeros as rows.
    said = any(not (_is_zero(v) and _as_many(v, x)) for v in weights.first)
    first = [b.Unsqueeze(v, axes=(0,)) if said else None for v in weights.first]
    operands = [v.reshape(1, *shape).astype(x.type.dtype.numpy) for v, shape in (
        (weights.w, (-1, weights.w.shape[2])), (weights.r, (-1, weights.r.shape[2])), (weights.b, (-1,)))]  # fmt: skip
    attrs = _attributes(layer)
    y, *last = getattr(b, layer.op)(
        x, *operands, None, *first, hidden=weights.r.shape[2], n_outputs=1 + len(first), **attrs
    )
    if not may_stay(y.producer):
        for new in reversed(b.made):
            graph.erase(new)
        raise NoMatchError
    made: dict[Any, Value] = {}
    for old, (kind, what) in zip(node.outputs, results, strict=True):
        if not old.uses:
            continue
        key = (kind, what, old.type.dtype, old.type.rank)
        if key not in made:
            made[key] = _result(b, loop, y, last, kind, what, old)
        old.replace_all_uses(made[key])
    graph.erase(node)


def _attributes(layer: Layer) -> dict[str, Any]:
    names = tuple(f.name for f in layer.functions)
    attrs: dict[str, Any] = {"linear_before_reset": True} if layer.linear_before_reset else {}
    if names == _USUAL[layer.op]:
        return attrs
    alpha, beta = (
        tuple(chain.from_iterable(v)) for v in zip(*((f.alpha, f.beta) for f in layer.functions), strict=True)
    )
    return {**attrs, "activations": names, "activation_alpha": alpha, "activation_beta": beta}


def _result(b: Builder, loop: Counted, y: Value, last: Sequence[Value], kind: str, what: Any, old: Value) -> Value:
    """What an output of the loop is by the results of the layer."""
    if kind == "state":
        return b.Squeeze(last[what], axes=(0,))
    if kind == "rows":
        return b.Squeeze(y, axes=(1,))
    if kind == "count":
        return loop.count(b, what, old)
    if kind == "last row" and loop.rounds is not None:
        return last[0]
    if kind == "last row":
        # The list holds zeros as long as there was no round.
        zeros = b.Expand(np.zeros((1, 1, 1), y.type.dtype.numpy), b.Shape(last[0]))
        return b.Slice(b.Concat(zeros, b.Squeeze(y, axes=(1,)), axis=0), [-1], [2**31 - 1], [0])
    return what


def _is_zero(value: Value) -> bool:
    """All of it is 0."""
    node = value.producer
    while node is not None and node.op in ("Expand", "Fill"):
        value = node.input(1 if node.op == "Fill" else 0)
        node = value.producer
    return value.data is not None and not value.data.numpy().any()


def _as_many(first: Value, x: Value) -> bool:
    return same_dim((first.type.shape or ("?",))[0], (x.type.shape or ("?", "?"))[1])
