"""Everything that can be computed before the model runs, in one walk from the inputs to the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

import numpy as np

from minnow.optimizer.facts.derive import derived
from minnow.optimizer.rewrite import graph_pass
from minnow.optimizer.rewrite.weight import TransposedBlob
from minnow.schema.errors import MinnowError, ModelError
from minnow.schema.ir import UNKNOWN, Blob, DType, Graph, LazyBlob, Node, Value
from minnow.schema.ir.blob import Array
from minnow.schema.ir.type import Dim, merge
from minnow.schema.limit import LIMITS, meter
from minnow.schema.ops import Trait, get, infer_node
from minnow.schema.registry.folding import fold
from minnow.schema.registry.op import NUMPY_REFUSALS
from minnow.schema.registry.symbolic import Known, Memo, Polynomial, contents, dimension, of_dim


@graph_pass(level=1, whole=True)
def fold_constants(graph: Graph) -> int:
    """Computes what constants and known dimensions decide, and takes the branch that a known condition chooses.

    Types are inferred anew on the way, with what has become known; subgraphs get the constants that they capture as
    their own. Big constants that are only moved or cast become lazy: they are computed when the file is written.

    Given:
        graph g(%x: f32[N,3,8], %z: f32[2]) {
          %a: i64[3] = Shape(%x)
          %b: i64[2] = Slice(%a, i64[1](1), i64[1](3))
          %c: i64[] = ReduceProd(%b) {keepdims=False}
          %d: bool[] = Equal(%c, i64[](24))
          %y: f32[?] = If(%d, %z) {then_branch=graph t(%z: f32[2]) {
            %y: f32[2] = Exp(%z)
            return %y
          }, else_branch=graph e(%z: f32[2]) {
            %y: f32[2] = Neg(%z)
            return %y
          }}
          return %y
        }
    Result:
        graph g(%x: f32[N,3,8], %z: f32[2]) {
          %y: f32[2] = Exp(%z)
          return %y
        }
    """
    return _walk(graph)


def _walk(graph: Graph) -> int:
    changes = 0
    memo: Memo[Known] = Memo(most=len(graph) + 1)
    for node in graph:
        if node.subgraphs:
            changes += pull_captures(node)
            changes += sum(_walk(body) for body in node.subgraphs.values())
        _name_axes(node)
        _refine(node)
        _refine_by_dimensions(node, memo)
        if node.op == "If" and node.input(0).is_const:
            _inline(graph, node)
            changes += 1
        elif _fold(graph, node, memo):
            changes += 1
    return changes


_LISTS = {"at": "axes", "parts": "sizes"}
"""Operands of which the name says that they take the place of an attribute."""


def _name_axes(node: Node) -> None:
    """Makes an attribute, which rules can read, of axes and sizes that have become numbers."""
    operands = get(node.op).inputs
    if len(node.inputs) != 2 or len(operands) < 2 or operands[1].name not in _LISTS or not node.has_input(1):
        return
    numbers = node.input(1).array
    if numbers is not None:
        node.remove_input(1)
        node.set_attrs(**{_LISTS[operands[1].name]: tuple(int(n) for n in numbers)})


def _refine(node: Node) -> None:
    """Completes the types of the results by what can be inferred now."""
    try:
        types = infer_node(node)
        shapes = [merge(new.shape, v.type.shape) for new, v in zip(types, node.outputs, strict=True)]
    except ModelError:
        return  # of a node in a branch that is never taken, or behind an op we do not model
    for value, shape in zip(node.outputs, shapes, strict=True):
        value.type = value.type.with_shape(shape)


def _refine_by_dimensions(node: Node, memo: Memo[Known]) -> None:
    """Completes the type of the result by formulas of dimensions of the operands."""
    if len(node.outputs) != 1 or node.output.type.is_static:
        return
    found = derived(node, memo)
    if found is None:
        return
    shape = node.output.type.shape
    # One formula has one spelling; and a name that was only made up goes for what is known now.
    known = None if shape is None else tuple(UNKNOWN if _is_made(d) else of_dim(d).dim for d in shape)
    dims: tuple[Dim, ...] = tuple(UNKNOWN if e is None or not e.at_least(0) else e.dim for e in found)
    with suppress(ModelError):
        node.output.type = node.output.type.with_shape(merge(merge(known, dims), shape))


@graph_pass(level=1, whole=True)
def name_dimensions(graph: Graph) -> int:
    """Gives each unknown dimension a new name, and finds out which dimensions are equal.

    What depends on the input only has one value in a run; in the body of a loop it may change from round to round.

    Given:
        graph g(%x: f32[N,3], %c: bool[N]) {
          %a: f32[?,3] = Compress(%x, %c) {axis=0}
          %b: f32[?,3] = Exp(%a)
          %y: f32[?,3] = Add(%a, %b)
          return %y
        }
    Result:
        graph g(%x: f32[N,3], %c: bool[N]) {
          %a: f32["?1",3] = Compress(%x, %c) {axis=0}
          %b: f32["?1",3] = Exp(%a)
          %y: f32["?1",3] = Add(%a, %b)
          return %y
        }
    """
    used = [d for g in graph.walk() for v in g.values() for d in v.type.shape or () if _is_made(d)]
    return _name(graph, count(1 + max((int(str(d)[1:]) for d in used), default=0)))


def _is_made(dim: Dim) -> bool:
    return isinstance(dim, str) and dim.startswith(UNKNOWN) and dim[1:].isdigit()


def _name(graph: Graph, numbers: Iterator[int]) -> int:
    memo: Memo[Known] = Memo(most=len(graph) + 1)
    names: dict[Polynomial, str] = {}
    changes = 0
    for node in graph:
        if node.op == "If":
            changes += pull_captures(node)
            changes += sum(_name(body, numbers) for body in node.subgraphs.values())
        if node.op == "Loop":
            continue
        before = [v.type.shape for v in node.outputs]
        _refine(node)
        _refine_by_dimensions(node, memo)
        for value in node.outputs:
            if value.type.shape is not None and UNKNOWN in value.type.shape and not value.type.holds_tensors:
                value.type = value.type.with_shape(_named(value, memo, names, numbers))
        changes += before != [v.type.shape for v in node.outputs]
    return changes


def _named(value: Value, memo: Memo[Known], names: dict[Polynomial, str], numbers: Iterator[int]) -> list[Dim]:
    """The dimensions with names for unknown ones; equal formulas get the same name, as in `names`."""
    node, shape = value.producer, value.type.shape or ()
    formulas = derived(node, memo) if node is not None and len(node.outputs) == 1 else None
    named: list[Dim] = []
    for axis, dim in enumerate(shape):
        if dim == UNKNOWN:
            own = dimension(value, axis)
            formula = formulas[axis] if formulas and len(formulas) == len(shape) else None
            formula = own if formula is None or not formula.at_least(0) else formula
            name = names.get(formula) if formula is not None else None
            dim = name or f"{UNKNOWN}{next(numbers)}"
            names.update({e: dim for e in (formula, own) if e is not None})
        named.append(dim)
    return named


def _fold(graph: Graph, node: Node, memo: Memo[Known]) -> bool:
    if len(node.outputs) == 1 and _by_dimensions(node.output, memo):
        return True
    try:
        fold(graph, [node], ())
    except (MinnowError, *NUMPY_REFUSALS):
        return False  # a run ends with an error, if it gets there
    return node.graph is None or _lazily(node)


def _by_dimensions(value: Value, memo: Memo[Known]) -> bool:
    """Replaces computed integers by numbers."""
    counted = value.type.dtype.is_int or value.type.dtype is DType.BOOL
    known = contents(value, memo) if value.uses and counted else None
    if known is None or any(e is None or e.integer is None for e in known):
        return False
    numbers = np.array([e.integer for e in known if e is not None], np.int64)
    array = numbers.astype(value.type.dtype.numpy).reshape(value.type.static_shape)
    value.replace_all_uses(Value.constant(array, value.name))
    return True


def _lazily(node: Node) -> bool:
    """Replaces what only moves or casts constants by constants that are computed later."""
    if Trait.MOVEMENT not in get(node.op).traits and node.op != "Cast":
        return False
    given = [v for v in node.inputs if v is not None]
    results = [v for v in node.outputs if v.uses]
    if not results or not all(v.is_const for v in given) or not all(v.type.is_static for v in node.outputs):
        return False
    # What repeats its input is smaller as a node.
    once = {id(v.data): v.data for v in given if v.data is not None}.values()
    if sum(v.type.count or 0 for v in node.outputs) > sum(math.prod(b.shape) for b in once):
        return False
    if not _is_worth_it(results, once):
        return False
    if node.op == "Transpose" and node.attrs["perm"] == (1, 0):
        # Who turns it back gets the very blob, which may be read elsewhere too, as tied embeddings are.
        results[0].replace_all_uses(Value.constant(TransposedBlob.of(given[0]), results[0].name))
        return True
    blobs = [None if v is None else v.data for v in node.inputs]
    op, attrs = get(node.op), dict(node.attrs)

    def compute(i: int) -> Array:
        return op.evaluate([None if b is None else b.numpy() for b in blobs], attrs)[i]

    made_of = [b for b in blobs if b is not None]
    for value in results:
        function: Callable[[], Array] = partial(compute, value.index)
        blob = LazyBlob(function, value.type.dtype, value.type.static_shape, made_of)
        value.replace_all_uses(Value.constant(blob, value.name))
    return True


def _is_worth_it(results: Sequence[Value], blobs: Collection[Blob]) -> bool:
    """Within the limits: a few constants, cut and joined again and again, would take hours to write, or any space."""
    if max((getattr(b, "depth", 0) for b in blobs), default=0) >= LIMITS.lazy_depth:
        return False
    size = sum((v.type.count or 0) * v.type.dtype.size for v in results)
    work = size + len(results) * sum(getattr(b, "work", 0) for b in blobs)
    current = meter()
    return work <= max(LIMITS.lazy_depth * size, LIMITS.computed_bytes // 16) and (
        current is None or current.takes(size)
    )


def pull_captures(node: Node) -> int:
    """Gives the bodies the constants they capture as constants of their own, what is known of the types of the others,
    and drops unused parameters."""
    bodies = list(node.subgraphs.values())
    # Operands of If stand one behind the condition; those of Loop line up with the body's parameters.
    first, shift = (2 + node.attrs["num_carried"], 0) if node.op == "Loop" else (0, 1)
    changes = 0
    for k in reversed(range(first, len(bodies[0].params))):
        operand = node.inputs[k + shift]
        params = [body.params[k] for body in bodies]
        for p in params:
            if operand is None:
                continue
            if operand.data is not None:
                p.replace_all_uses(Value(operand.type, operand.name, operand.data))
            else:
                p.type = p.type.with_shape(merge(p.type.shape, operand.type.shape))
        if not any(p.uses for p in params):
            for body in bodies:
                del body.params[k]
                body.touch()
            node.remove_input(k + shift)
            changes += 1
    return changes


def _inline(graph: Graph, node: Node) -> None:
    """Puts the nodes of the branch that is taken behind the If."""
    condition = node.input(0).array
    assert condition is not None
    branch: Graph = node.attrs["then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"]
    table: dict[Value, Value] = {}
    for param, operand in zip(branch.params, node.inputs[1:], strict=True):
        assert operand is not None
        table[param] = operand
    before = node._next
    for inner in branch:
        moved = Node(
            inner.op,
            [v if v is None else table.get(v, v) for v in inner.inputs],
            inner.attrs,
            [v.type for v in inner.outputs],
            [v.name for v in inner.outputs],
            inner.origin,
        )
        graph.insert(moved, before)
        table.update(zip(inner.outputs, moved.outputs, strict=True))
    for value, result in zip(node.outputs, branch.outputs, strict=True):
        new = table.get(result, result)
        if new.producer is not None and value.name:
            new.name = value.name
        value.replace_all_uses(new)
    # Constants are shared by the moved nodes: the branch must not count among their readers.
    branch.outputs = []
    for inner in reversed(branch):
        branch.erase(inner)
    graph.erase(node)
