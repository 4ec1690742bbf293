"""Reverse-mode derivatives: nodes that compute, for one number of a graph, how it changes with other values.

    loss, = graph.outputs
    by_weights = add_gradients(graph, loss, [w, b])

The rule of an op stands beside its schema, `@Mul.gradient`, in the modules of `schema/ops/gradient`:

    @Mul.gradient
    def _(g, a, b):
        return g.dy * b, g.dy * a

It is called with a `Step` and a `Term` (or None) per operand, and the attributes by keyword; it gives a Term (or None:
zero everywhere) per operand. What it builds are ops of the registry, so that passes and the engine know them. A
gradient of another shape is summed, or repeated, to that of the operand: broadcasting is undone here, once for all ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ir.type import Shape, same_dim
from minnow.schema.registry.builder import Builder
from minnow.schema.registry.op import Trait, get


class Term:
    """A value in the formula of a gradient: arithmetic with it, with other terms and with numbers builds nodes."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    @property
    def dims(self) -> Shape:
        """The dimensions. Raises UnsupportedError where even the rank is unknown."""
        if self.value.type.shape is None:
            raise UnsupportedError(f"the gradient needs the rank of {self.value!r}", hint="give all inputs shapes")
        return self.value.type.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions as numbers. Raises UnsupportedError where one is dynamic."""
        dims = self.dims
        if not self.value.type.is_static:
            raise UnsupportedError(
                f"the gradient needs the dimensions of {self.value!r}", hint="give the graph inputs static shapes"
            )
        return tuple(d for d in dims if isinstance(d, int))

    @property
    def rank(self) -> int:
        return len(self.dims)

    def numbers(self, what: str) -> np.ndarray[Any, Any]:
        """The contents of a constant. Raises UnsupportedError for what is computed."""
        if self.value.array is None:
            raise UnsupportedError(f"the gradient needs {what} to be constant")
        return self.value.array

    def _make(self, op: str, *operands: Any, **attrs: Any) -> Term:
        node = self.builder.node(op, _values(operands, self.dtype), attrs)
        return Term(self.builder, node.outputs[0])

    def __add__(self, other: Any) -> Term:
        return self._make("Add", self, other)

    def __radd__(self, other: Any) -> Term:
        return self._make("Add", other, self)

    def __sub__(self, other: Any) -> Term:
        return self._make("Sub", self, other)

    def __rsub__(self, other: Any) -> Term:
        return self._make("Sub", other, self)

    def __mul__(self, other: Any) -> Term:
        return self._make("Mul", self, other)

    def __rmul__(self, other: Any) -> Term:
        return self._make("Mul", other, self)

    def __truediv__(self, other: Any) -> Term:
        return self._make("Div", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._make("Div", other, self)

    def __neg__(self) -> Term:
        return self._make("Neg", self)

    def __gt__(self, other: Any) -> Term:
        return self._make("Greater", self, other)

    def __ge__(self, other: Any) -> Term:
        return self._make("GreaterOrEqual", self, other)

    def __lt__(self, other: Any) -> Term:
        return self._make("Less", self, other)

    def __le__(self, other: Any) -> Term:
        return self._make("LessOrEqual", self, other)

    def __and__(self, other: Any) -> Term:
        return self._make("And", self, other)


def _values(operands: Iterable[Any], dtype: DType) -> list[Any]:
    """Operands for the builder: numbers become floats of the type of the floats beside them, by default `dtype`."""
    operands = list(operands)
    like = next((v.dtype for v in operands if isinstance(v, Term) and v.dtype.is_float), dtype)
    return [
        v.value if isinstance(v, Term) else np.asarray(v, like.numpy) if isinstance(v, float) else v for v in operands
    ]


Pieces = Term | None | Sequence[Term | None]
"""What a rule gives."""


class Step:
    """One node on the way back: what its rule is given beside the operands. `g.Exp(x)` builds a node.

    Attributes:
        node: the node.
        dys: the gradient of each result, None where nothing depends on it.
        ys: the results.
    """

    def __init__(self, builder: Builder, node: Node, dys: Sequence[Term | None]) -> None:
        self.builder = builder
        self.node = node
        self.dys = tuple(dys)
        self.ys = tuple(Term(builder, v) for v in node.outputs)

    def __getattr__(self, name: str) -> Any:
        make = getattr(self.builder, name)

        def wrapped(*operands: Any, **attrs: Any) -> Any:
            made = make(*_values(operands, self.ys[0].dtype if self.ys else DType.F32), **attrs)
            if isinstance(made, Value):
                return Term(self.builder, made)
            return tuple(Term(self.builder, v) for v in made)

        return wrapped

    @property
    def dy(self) -> Term:
        """The gradient of the first result; zeros where nothing depends on it."""
        return self.dys[0] or self.zeros(self.ys[0])

    @property
    def y(self) -> Term:
        return self.ys[0]

    def term(self, numbers: Any, like: Term | None = None) -> Term:
        """A constant; of the type of `like` where that is given."""
        array = np.asarray(numbers)
        if like is not None:
            array = array.astype(like.dtype.numpy)
        return Term(self.builder, Value.constant(array))

    def ints(self, *numbers: int) -> Term:
        """A vector of int64: a shape, places, axes."""
        return self.term(np.array(numbers, np.int64))

    def shape_of(self, x: Term) -> Term:
        """The shape of x as an operand: a constant where it is known."""
        if x.value.type.is_static:
            return self.ints(*x.shape)
        return Term(self.builder, self.builder.Shape(x.value))

    def zeros(self, like: Term) -> Term:
        return self.full(like, 0.0)

    def full(self, like: Term, number: float) -> Term:
        """A tensor of the shape and type of another one, the same number everywhere."""
        made = self.builder.Fill(self.shape_of(like).value, np.asarray(number, like.dtype.numpy))
        return Term(self.builder, made)

    def total(self, x: Term, axes: Iterable[int], keepdims: bool = True) -> Term:
        """The sum over axes; x itself where there are none."""
        axes = tuple(axes)
        made = self.builder.ReduceSum(x.value, axes=axes, keepdims=keepdims) if axes else x.value
        return Term(self.builder, made)

    def mean(self, x: Term, axes: Iterable[int]) -> Term:
        return Term(self.builder, self.builder.ReduceMean(x.value, axes=tuple(axes)))

    def reshaped(self, x: Term, *shape: int) -> Term:
        """The elements of x under another shape, of which one number may be -1."""
        if -1 in shape and 0 in x.dims and (given := math.prod(d for d in shape if d != -1)):
            shape = tuple(0 // given if d == -1 else d for d in shape)
        made = self.builder.Reshape(x.value, np.array(shape, np.int64), allowzero=0 in shape)
        return Term(self.builder, made)

    def like(self, x: Term, other: Term) -> Term:
        """The elements of x under the shape of another term."""
        if other.value.type.is_static:
            return self.reshaped(x, *other.shape)
        return Term(self.builder, self.builder.Reshape(x.value, self.shape_of(other).value))

    def through(self, function: Callable[..., Term | Sequence[Term]], *operands: Term | None) -> list[Term | None]:
        """The gradients of an op that `function` computes from the operands by other ops: by theirs.

        The results are computed once more, by these ops.
        """
        made = len(self.builder.made)
        given = [None if x is None else Term(self.builder, self.builder.Identity(x.value)) for x in operands]
        results = function(*given)
        results = [results] if isinstance(results, Term) else results
        seeds: dict[Value, Value] = {}
        for y, dy in zip(results, self.dys, strict=False):
            if dy is not None:
                seeds[y.value] = dy.value
        found = pullback(self.builder, self.builder.made[made:], seeds, [x.value for x in given if x is not None])
        return [None if x is None or x.value not in found else Term(self.builder, found[x.value]) for x in given]


def pullback(
    builder: Builder, nodes: Sequence[Node], seeds: Mapping[Value, Value], by: Iterable[Value]
) -> dict[Value, Value]:
    """The gradients that arrive at the values `by`, given those of some results of `nodes`, which are in order.

    A value that has no influence is missing. New nodes are built where the builder stands.

    Raises:
        UnsupportedError: an op on the way has no gradient, or needs to know more of its operands.
    """
    by = list(by)
    active = set(by)
    way: list[Node] = []
    for node in nodes:
        if any(v in active for v in node.inputs if v is not None):
            active.update(v for v in node.outputs if _has_derivative(node, v))
            way.append(node)
    arrived = {v: [seed] for v, seed in seeds.items()}
    sums: dict[Value, Value] = {}
    for node in reversed(way):
        for v in node.outputs:
            if v in arrived:
                small = arrived[v][0] if len(arrived[v]) == 1 and _takes_row(node, arrived[v][0]) else None
                sums[v] = small or _sum(builder, arrived[v], v)
        dys = [sums.get(v) for v in node.outputs]
        if all(dy is None for dy in dys):
            continue
        for operand, piece in zip(node.inputs, _pieces(builder, node, dys), strict=False):
            if operand is None or piece is None or operand not in active:
                continue
            arrived.setdefault(operand, []).append(_fitted(builder, piece, operand, node))
    return {v: sums.get(v) or _sum(builder, arrived[v], v) for v in by if v in arrived}


def _sum(builder: Builder, pieces: Sequence[Value], of: Value) -> Value:
    """The gradient of a value: the sum of its pieces, repeated to its shape. Nothing is repeated before it is added."""
    whole = [p for p in pieces if not _is_repeated(p, of)]
    small = [p for p in pieces if _is_repeated(p, of)]
    parts = [reduce(builder.Add, group) for group in (whole, small) if group]
    total: Value = reduce(builder.Add, parts)
    if _is_repeated(total, of):
        shape = np.array(of.type.shape, np.int64) if of.type.is_static else builder.Shape(of)
        total = builder.Expand(total, shape)
    return total


def _takes_row(node: Node, piece: Value) -> bool:
    """The rule of a node need not be given this piece repeated: a vector along one axis that meets a function of one
    tensor, which multiplies it by something of that tensor's shape."""
    if len(node.inputs) != 1 or Trait.ELEMENTWISE not in get(node.op).traits:
        return False
    return len([d for d in piece.type.shape or () if d != 1]) <= 1


def _is_repeated(piece: Value, of: Value) -> bool:
    """The piece stands for a larger one of the shape of `of`, by axes of size 1 or none."""
    target, given = of.type.shape or (), piece.type.shape or ()
    lead = len(target) - len(given)
    return lead > 0 or any(d == 1 and not same_dim(target[lead + i], 1) for i, d in enumerate(given))


def _has_derivative(node: Node, value: Value) -> bool:
    """Floats do; integers do where rounding to them counts as no change; what holds tensors is asked for a rule."""
    if value.type.dtype.is_float or value.type.holds_tensors:
        return True
    return Trait.STRAIGHT_THROUGH in get(node.op).traits


def _pieces(builder: Builder, node: Node, dys: Sequence[Value | None]) -> Sequence[Value | None]:
    """What the rule of a node gives for its operands."""
    op = get(node.op, node.origin)
    rule = op.gradient_rule
    where = node.origin or node.name
    if rule is None:
        raise UnsupportedError(
            f"the op {node.op} has no gradient",
            where=where,
            why=f"the node {node!r} is on the way from a parameter to the loss",
            hint="docs/ops.md lists the ops that have one; compute the loss from values in front of this node",
        )
    origin, builder.origin = builder.origin, f"{where} > gradient" if where else "gradient"
    try:
        step = Step(builder, node, [None if dy is None else Term(builder, dy) for dy in dys])
        terms: list[Term | None] = [None if v is None else Term(builder, v) for v in node.inputs]
        terms += [None] * (len([i for i in op.inputs if not i.variadic]) - len(terms))
        pieces = rule(step, *terms, **op.bind(len(node.inputs), node.attrs, node.origin))
    except (UnsupportedError, ModelError) as e:
        if not e.where or e.where == builder.origin:
            e.where = where
        e.why = e.why or f"the gradient of {node!r}"
        raise
    finally:
        builder.origin = origin
    pieces = [pieces] if isinstance(pieces, Term) or pieces is None else pieces
    return [None if p is None else p.value for p in pieces]


def _fitted(builder: Builder, piece: Value, operand: Value, node: Node) -> Value:
    """What broadcasting an operand does to it, undone: the sum over the axes along which it was repeated.

    A piece that is smaller than the operand, by axes of size 1 or none, stays so.
    """
    target, given = operand.type.shape, piece.type.shape
    if target is None or given is None:
        raise UnsupportedError(f"the gradient of {node.op} needs the ranks of its operands", where=node.origin)
    lead = len(given) - len(target)
    axes = list(range(lead))
    for i, d in enumerate(target):
        at = lead + i
        if at < 0 or same_dim(given[at], d) or given[at] == 1:
            continue
        if d == 1:
            axes.append(at)
        elif isinstance(d, int) and isinstance(given[at], int):
            raise ModelError(
                f"a gradient of shape {given} does not fit an operand of shape {target}", where=node.origin
            )
        # A dimension that is unknown here is one that the operand shares: rules give what fits.
    if axes:
        piece = builder.ReduceSum(piece, axes=tuple(axes), keepdims=True)
        if lead > 0:
            piece = builder.Squeeze(piece, axes=tuple(range(lead)))
    return piece


def add_gradients(
    graph: Graph, of: Value, by: Sequence[Value], seed: Value | None = None, before: Node | None = None
) -> list[Value]:
    """Adds nodes to a graph that compute the derivatives of one number by each element of other values.

    Args:
        graph: gets the new nodes, at its end.
        of: a value of one float; with a `seed` any float value.
        by: float values of the graph: parameters, constants, results of nodes.
        seed: what the elements of `of` count, of its shape; by default 1.
        before: where the new nodes go; None: to the end.

    Returns:
        A value for each of `by`, of its type; zeros where `of` does not depend on it.

    Raises:
        UnsupportedError: an op on the way has no gradient (`where` names the node, the message the op), or its rule
            needs to know more: static shapes, constants.
        ModelError: `of` is no float, or has several elements.
    """
    if not of.type.dtype.is_float or (seed is None and of.type.count != 1):
        raise ModelError(f"the gradient is of one float, not of {of.type}", hint="reduce it by ReduceMean or ReduceSum")
    for value in by:
        if not value.type.dtype.is_float:
            raise ModelError(f"there is no derivative by {value!r}", why="its elements are not floats")
    builder = Builder(graph, before, "gradient")
    if seed is None:
        seed = Value.constant(np.ones(of.type.static_shape, of.type.dtype.numpy))
    found = pullback(builder, list(graph) if before is None else _until(graph, before), {of: seed}, by)
    results = []
    for value in by:
        if value not in found:
            step = Step(builder, graph.ret, ())
            found[value] = step.zeros(Term(builder, value)).value
        results.append(found[value])
    _erase_unused(graph, builder.made, set(results))
    return results


def _until(graph: Graph, end: Node) -> list[Node]:
    nodes = []
    for node in graph:
        if node is end:
            break
        nodes.append(node)
    return nodes


def _erase_unused(graph: Graph, made: Sequence[Node], kept: set[Value]) -> None:
    for node in reversed(made):
        if node.graph is graph and not any(v.uses or v in kept for v in node.outputs):
            graph.erase(node)


def gradient(graph: Graph, of: int = 0, by: Sequence[int] | None = None) -> Graph:
    """A copy of a graph with more outputs: the derivatives of one of its outputs by its parameters.

    Args:
        graph: any graph; it stays as it is.
        of: which output, a float of one element.
        by: which parameters; None: all that are floats.
    """
    made = graph.clone()
    chosen = [p for p in made.params if p.type.dtype.is_float] if by is None else [made.params[i] for i in by]
    outputs = made.outputs
    made.outputs = [*outputs, *add_gradients(made, outputs[of], chosen)]
    return made
