"""Graphs that are nearly what a rule looks for: its own example, changed in one place, in every kind of way.

A rule must see that it does not apply to them, or be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from minnow.schema.errors import MinnowError, ModelError
from minnow.schema.ir import DType, Graph, Node, TensorType, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.op import NUMPY_REFUSALS

Array = np.ndarray[Any, Any]


@dataclass
class Edit:
    """What is other in a copy of a graph.

    Attributes:
        what: in words.
        types: of parameters. numbers: of constants. attrs: of nodes.
        inputs: what a node reads: another of its operands, by place, or a new parameter of this type.
        added: a parameter of the graph becomes an operand that a node does not have, at this place.
        expose: this value is an output, too. read: it is read by one more node.
        said: the values inside are said to have the shapes that they had.
        like: a graph whose parameters have the shapes of inputs; without one it is the edited graph itself.
    """

    what: str
    types: Mapping[Value, TensorType] = field(default_factory=dict)
    numbers: Mapping[Value, Array] = field(default_factory=dict)
    attrs: Mapping[Node, Mapping[str, Any]] = field(default_factory=dict)
    inputs: Mapping[tuple[Node, int], int | TensorType] = field(default_factory=dict)
    added: Mapping[Node, tuple[int, TensorType]] = field(default_factory=dict)
    expose: Value | None = None
    read: Value | None = None
    said: bool = False
    like: Graph | None = None


def edited(graph: Graph, edit: Edit) -> Graph | None:
    """The graph with the edit, its types inferred anew; None where an op does not take it."""
    try:
        return _copy(graph, edit)
    except (MinnowError, *NUMPY_REFUSALS):
        return None


def _copy(graph: Graph, edit: Edit) -> Graph:
    new = Graph(graph.name)
    table: dict[Value, Value] = {p: new.add_param(edit.types.get(p, p.type), p.name) for p in graph.params}
    b = Builder(new)

    def mapped(value: Value | None) -> Value | None:
        if value is not None and value.data is not None and value not in table:
            array = edit.numbers.get(value)
            made = Value(value.type, value.name, value.data) if array is None else Value.constant(array, value.name)
            table[value] = made
        return None if value is None else table[value]

    for node in graph:
        operands = [mapped(v) for v in node.inputs]
        for (at, i), source in edit.inputs.items():
            if at is node and operands[i] is not None:
                computed = isinstance(source, TensorType)
                operands[i] = new.add_param(source, "other") if computed else mapped(node.inputs[source])
        attrs = {**node.attrs, **edit.attrs.get(node, {})}
        attrs = {k: _copy(v, edit) if isinstance(v, Graph) else v for k, v in attrs.items()}
        if (added := edit.added.get(node)) is not None:
            operands = [*operands, *[None] * (added[0] - len(operands)), new.add_param(added[1], "added")]
        b.origin = node.origin
        made = b.node(get(node.op), operands, attrs, len(node.outputs))
        for old_value, value in zip(node.outputs, made.outputs, strict=True):
            value.name = old_value.name
            table[old_value] = value
            if edit.said or not (edit.types or edit.numbers or edit.attrs or edit.inputs):
                with suppress(ModelError):  # the file may say more than can be inferred
                    value.type = value.type.with_shape(merge(value.type.shape, old_value.type.shape))
            if edit.read is old_value:
                reader = b.SequenceLength(value) if value.type.holds_tensors else b.Shape(value)
                table[edit.read, "reader"] = reader  # type: ignore[index]
    new.outputs = [v for v in map(mapped, graph.outputs) if v is not None]
    if edit.expose is not None and edit.expose in table:
        new.outputs = [*new.outputs, table[edit.expose]]
    if (edit.read, "reader") in table:  # type: ignore[comparison-overlap]
        new.outputs = [*new.outputs, table[edit.read, "reader"]]  # type: ignore[index]
    return new


_SIDE = 4

KINDS: dict[str, Callable[[Graph], Iterator[Edit]]] = {}


def _kind(function: Callable[[Graph], Iterator[Edit]]) -> Callable[[Graph], Iterator[Edit]]:
    KINDS[function.__name__.strip("_")] = function
    return function


def _constants(graph: Graph) -> list[Value]:
    return list(dict.fromkeys(c for g in graph.walk() for c in g.constants()))


def _nodes(graph: Graph) -> list[Node]:
    return [node for g in graph.walk() for node in g]


@_kind
def constant(graph: Graph) -> Iterator[Edit]:
    """Another number: everywhere, or in one place."""
    for value in _constants(graph):
        array = value.array
        if array is None or not array.size or array.dtype.kind not in "fiub":
            continue
        made: list[tuple[str, Any]]
        if array.dtype.kind == "b":
            made = [("the opposite", ~array)]
        elif array.dtype.kind == "f":
            made = [(f"times {f}", array * f) for f in (1.001, -1, 2)] + [("zero", np.zeros_like(array))]
            # Nobody looks through big weights for what nobody trains.
            extreme = {"infinite": np.inf, "no number": np.nan, "huge": -1e30, "tiny": 1e-30} if array.ndim < 2 else {}
            with np.errstate(over="ignore"):
                made += [(what, np.full(array.shape, n).astype(array.dtype)) for what, n in extreme.items()]
        else:
            wide = array.astype(np.int64)
            made = [("one more", wide + 1), ("one less", wide - 1), ("zero", array * 0)]
            made += [("reversed", array[::-1]), ("turned", np.roll(array, 1))] if array.ndim else []
            made += [("its ends swapped", np.concatenate([array[:-2], array[:-3:-1]]))] if array.ndim == 1 else []
        for place in {0, array.size - 1} if array.size > 1 else ():
            one = array.copy().reshape(-1)
            one[place : place + 1] = ~one[place : place + 1] if array.dtype.kind == "b" else one[place : place + 1] + 1
            one = one.reshape(array.shape)
            made.append((f"another number at {place}", one))
        for what, other in made:
            if not np.array_equal(other, array, equal_nan=array.dtype.kind == "f"):
                yield Edit(f"{value!r}: {what}", numbers={value: np.asarray(other).astype(array.dtype)})
    # Where begin and end of a part are two constants, one alone may make nonsense.
    integers = [(v, v.array) for v in _constants(graph) if v.type.dtype.is_int and v.array is not None]
    for step in (1, -1) if len(integers) > 1 else ():
        numbers = {v: (a.astype(np.int64) + step).astype(a.dtype) for v, a in integers}
        yield Edit(f"{step:+} in all integers", numbers=numbers)


@_kind
def broadcast(graph: Graph) -> Iterator[Edit]:
    """A constant in another shape: it may stretch along another axis, or stretch the other operand."""
    for value in _constants(graph):
        array = value.array
        stretched = any(Trait.ELEMENTWISE in get(user.op).traits and len(user.inputs) > 1 for user in value.users)
        if array is None or not array.size or array.dtype.kind != "f" or not stretched:
            continue
        shapes: list[tuple[int, ...]] = [(1, *array.shape), (*array.shape, 1), (1,), (), (2, *array.shape)]
        shapes += [(array.size,), tuple(reversed(array.shape))]
        shapes += [(*array.shape[:i], 1, *array.shape[i + 1 :]) for i in range(array.ndim)]
        for shape in dict.fromkeys(shapes):
            if shape != array.shape:
                yield Edit(f"{value!r} in the shape {shape}", numbers={value: np.resize(array, shape)})


@_kind
def attribute(graph: Graph) -> Iterator[Edit]:
    """Another attribute: axis, permutation, stride, mode, border, type."""
    for node in _nodes(graph):
        for name, attr in get(node.op).attrs.items():
            value = node.attrs.get(name, attr.default)
            for other in _others(value, attr.annotation):
                yield Edit(f"{node!r}: {name}={other!r}", attrs={node: {name: other}})


def _others(value: Any, annotation: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, -value]
    if isinstance(value, float):
        return [value * 1.5 + 0.25, -value, 0.0]
    if isinstance(value, str):
        return [c for c in get_args(annotation) if c != value]
    if isinstance(value, DType):
        return [d for d in (DType.F32, DType.F16, DType.F64, DType.I32, DType.I64) if d is not value]
    if isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
        found = [value[1:] + value[:1], value[::-1], tuple(v - len(value) for v in value), value[:-1]]
        found += [(*value[:i], v + 1, *value[i + 1 :]) for i, v in enumerate(value)]
        return [f for f in dict.fromkeys(found) if f != value]
    return []


def _extents(graph: Graph) -> list[int]:
    return list(dict.fromkeys(d for p in graph.params for d in p.type.shape or () if isinstance(d, int)))


def _in_place(shape: Any, old: Any, new: Any) -> Any:
    return shape if shape is None else tuple(new if d == old else d for d in shape)


@_kind
def extent(graph: Graph) -> Iterator[Edit]:
    """Another dimension, or none: in one parameter, or wherever it stands, in constants and numbers of shapes, too."""
    for param in graph.params:
        for i, d in enumerate(param.type.shape or ()):
            for other in (0, 1, d + 1 if isinstance(d, int) else 4):
                shape = (*param.type.shape[:i], other, *param.type.shape[i + 1 :])  # type: ignore[index]
                if other != d:
                    yield Edit(f"{param!r}: {shape}", types={param: param.type.with_shape(shape)})
        if param.type.shape:
            for shape in ((1, *param.type.shape), param.type.shape[1:], (*param.type.shape, 1)):
                yield Edit(f"{param!r}: {shape}", types={param: param.type.with_shape(shape)})
    # Bodies of loops say dimensions of their own, which what is empty would contradict.
    empty = {0} if len(list(graph.walk())) == 1 else set()
    for old in _extents(graph):
        for new in {1, old + 1, 2 * old, *empty} - {old}:
            types = {p: p.type.with_shape(_in_place(p.type.shape, old, new)) for p in graph.params}
            numbers = {}
            for value in _constants(graph):
                if value.array is None:
                    continue
                array = np.resize(value.array, _in_place(value.array.shape, old, new))
                numbers[value] = np.where(array == old, new, array) if array.dtype.kind in "iu" else array
            attrs = {}
            for node in _nodes(graph):
                changed = {
                    k: _in_place(v, old, new) for k, v in node.attrs.items() if isinstance(v, tuple) and old in v
                }
                attrs[node] = changed
            yield Edit(f"{new} for {old} in all shapes", types=types, numbers=numbers)
            yield Edit(f"{new} for {old} in all shapes and attributes", types=types, numbers=numbers, attrs=attrs)


@_kind
def symbol(graph: Graph) -> Iterator[Edit]:
    """A dimension that is not known: in one place, or wherever it stands; or not even the rank is."""
    for old in _extents(graph):
        types = {p: p.type.with_shape(_in_place(p.type.shape, old, "M")) for p in graph.params}
        yield Edit(f"M for {old}", types=types)
    for param in graph.params:
        for i, d in enumerate(param.type.shape or ()):
            for name in ("M", "?"):
                shape = (*param.type.shape[:i], name, *param.type.shape[i + 1 :])  # type: ignore[index]
                if d != name:
                    yield Edit(f"{param!r}: {shape}", types={param: param.type.with_shape(shape)})
        if param.type.shape is not None:
            yield Edit(f"{param!r}: of unknown rank", types={param: param.type.with_shape(None)})


@_kind
def said(graph: Graph) -> Iterator[Edit]:
    """A dimension, or a rank, that is not known of a parameter, but of what is made of it: the file says so."""
    for param in graph.params:
        for i, d in enumerate(param.type.shape or ()):
            if d != "?":
                shape = (*param.type.shape[:i], "?", *param.type.shape[i + 1 :])  # type: ignore[index]
                yield Edit(f"{param!r}: {shape}", types={param: param.type.with_shape(shape)}, said=True, like=graph)
        if param.type.shape is not None:
            yield Edit(f"{param!r}: of unknown rank", types={param: param.type.with_shape(None)}, said=True, like=graph)
    types = {p: p.type.with_shape(("?",) * (p.type.rank or 0)) for p in graph.params if p.type.shape}
    yield Edit("nothing but the rank of all parameters", types=types, said=True, like=graph)
    yield Edit("nothing of any parameter", types={p: p.type.with_shape(None) for p in types}, said=True, like=graph)


@_kind
def reader(graph: Graph) -> Iterator[Edit]:
    """One more node reads a value inside."""
    for node in graph:
        for value in node.outputs:
            yield Edit(f"{value!r} is read once more", read=value)


@_kind
def output(graph: Graph) -> Iterator[Edit]:
    """A value inside, or a parameter, is an output of the graph."""
    for value in graph.values():
        if value not in graph.outputs:
            yield Edit(f"{value!r} is an output", expose=value)


@_kind
def operand(graph: Graph) -> Iterator[Edit]:
    """Two operands change places, or one is another value than elsewhere in the pattern."""
    for node in _nodes(graph):
        there = [i for i, v in enumerate(node.inputs) if v is not None]
        for i, j in pairwise(there):
            if node.inputs[i] is not node.inputs[j]:
                yield Edit(f"{node!r}: operands {i} and {j} in each other's place", inputs={(node, i): j, (node, j): i})
    for node in graph:
        for i, value in enumerate(node.inputs):
            if value is None or not (len(value.uses) > 1 or value.producer is not None or value.data is not None):
                continue
            # Of what is computed the dimensions may not be known, nor how many there are.
            shapes = dict.fromkeys([value.type.shape, None, ("?",) * (value.type.rank or 0)])
            like = edited(graph, Edit("", inputs={(node, i): value.type}))
            for type in map(value.type.with_shape, shapes):
                what = f"{node!r}: operand {i} is an input of the graph, {type}"
                yield Edit(what, inputs={(node, i): type}, like=like)


@_kind
def optional(graph: Graph) -> Iterator[Edit]:
    """An operand more, which is computed: a bias, a zero point, an initial state."""
    for node in graph:
        first = next((v for v in node.inputs if v is not None), None)
        for i, each in enumerate(get(node.op).inputs):
            if each.optional and not each.variadic and not node.has_input(i) and i >= len(node.inputs) and first:
                shapes = dict.fromkeys(
                    [(), *((d,) for v in (*node.outputs, *node.inputs) if v for d in v.type.shape or ())]
                )
                for shape in shapes:
                    type = TensorType(first.type.dtype, shape)
                    yield Edit(f"{node!r}: with {each.name} {type}", added={node: (i, type)})


_TYPES = {
    DType.F32: (DType.F64, DType.F16, DType.I32),
    DType.I64: (DType.I32, DType.F32),
    DType.I32: (DType.I64, DType.F32),
    DType.F16: (DType.F32,),
}


@_kind
def dtype(graph: Graph) -> Iterator[Edit]:
    """Another type of elements, in one parameter or in everything."""
    for old in dict.fromkeys(p.type.dtype for p in graph.params if not p.type.holds_tensors):
        for new in _TYPES.get(old, ()):
            if not all(_takes(node, old, new) for node in _nodes(graph)):
                continue
            params = [p for g in graph.walk() for p in g.params]
            types = {p: p.type.with_dtype(new) for p in params if p.type.dtype is old}
            numbers = {}
            for value in _constants(graph):
                if value.type.dtype is old and value.array is not None:
                    with np.errstate(all="ignore"):
                        numbers[value] = value.array.astype(new.numpy)
            attrs = {}
            for node in _nodes(graph):
                attrs[node] = {k: new for k, v in node.attrs.items() if v is old}
            yield Edit(f"{new} for {old}", types=types, numbers=numbers, attrs=attrs)
            # What is a dimension or a place keeps its type.
            yield Edit(f"{new} for {old} in parameters", types=types)


def _takes(node: Node, old: DType, new: DType) -> bool:
    op = get(node.op)
    read = [op.operand(i) for i, v in enumerate(node.inputs) if v is not None and v.type.dtype is old]
    return all(new in each.dtypes for each in read)


def square(graph: Graph) -> Graph | None:
    """The graph with one number for all dimensions but 1, where mixing up axes does not show in the shapes."""
    known = {d for d in _extents(graph) if d != 1}
    if len(known) < 2:
        return None

    def shape(old: Any) -> Any:
        return old if old is None else tuple(_SIDE if d in known else d for d in old)

    numbers = {}
    for value in _constants(graph):
        if value.array is not None:
            array = np.resize(value.array, shape(value.array.shape))
            numbers[value] = np.where(np.isin(array, list(known)), _SIDE, array) if array.dtype.kind in "iu" else array
    types = {p: p.type.with_shape(shape(p.type.shape)) for g in graph.walk() for p in g.params}
    attrs = {n: {k: shape(v) for k, v in n.attrs.items() if k == "sizes"} for n in _nodes(graph)}
    return edited(graph, Edit("square", types=types, numbers=numbers, attrs=attrs))


def extents_for(graph: Graph) -> list[dict[str, int]]:
    """Numbers for the symbols of a graph, to run it with."""
    # Of what may have any rank, the example's own shape is one that fits.
    symbols = dict.fromkeys(d for p in graph.params for d in p.type.shape or () if isinstance(d, str))
    known = {"N": 3, "S": 5, "H": 7, "?": 2}
    return [{s: known.get(s, n) for s in symbols} for n in ((1, 2, 3, 4, 5) if "M" in symbols else (1,))]
