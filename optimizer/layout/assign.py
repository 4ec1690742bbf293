"""Memory layout: which values are stored in channel blocks (NC4HW4), and where conversions stand.

The choice that moves the fewest bytes, with nodes that need channel blocks on one side, nodes that need plain memory on
the other, and nodes that take either between them.
"""

from __future__ import annotations

from minnow.optimizer.layout.cut import Sides, bytes_of
from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.ops.raw import is_custom, is_rounded, is_window

PACKED, PLAIN = "nc4hw4", "nchw"


@graph_pass(level=0)
def assign_layout(graph: Graph) -> int:
    """Puts values between convolutions, poolings and the like into channel blocks; the rest stays plain.

    Given:
        graph g(%x: f32[1,4,2,2]) {
          %a: f32[1,4,2,2] = LRN(%x) {size=3}
          %b: f32[1,4,2,2] = Exp(%a)
          %c: f32[1,4,2,2] = LRN(%b) {size=3}
          return %c
        }
    Result:
        graph g(%x: f32[1,4,2,2]) {
          %0: f32[1,4,2,2]@nc4hw4 = ConvertLayout(%x) {to="NC4HW4"}
          %a: f32[1,4,2,2]@nc4hw4 = LRN(%0) {size=3}
          %b: f32[1,4,2,2]@nc4hw4 = Exp(%a)
          %1: f32[1,4,2,2]@nc4hw4 = LRN(%b) {size=3}
          %c: f32[1,4,2,2] = ConvertLayout(%1) {to="NCHW"}
          return %c
        }
    """
    if any(node.op == "Raw" and not is_custom(node) and not is_rounded(node) for node in graph):
        return 0  # an op that we do not model: the layouts of its file stay
    _strip(graph)
    labels = _labels(graph)
    if True not in labels.values():
        return 0
    packed = _solve(graph, labels)
    changes = 0
    for node in packed:
        for value in node.outputs:
            value.type = value.type.with_layout(PACKED)
    for value in list(graph.values()):
        changes += _convert(graph, value, packed)
    for value in graph.constants():
        changes += _convert(graph, value, packed)
    return changes


def _strip(graph: Graph) -> None:
    """Takes out the conversions that are there, so that the pass may run again."""
    for node in graph:
        if node.op == "ConvertLayout":
            node.output.replace_all_uses(node.input(0))
            graph.erase(node)
    for value in graph.values():
        if value.type.layout != PLAIN:
            value.type = value.type.with_layout(PLAIN)


def _blockable(value: Value, ranks: tuple[int, ...] = (4, 5)) -> bool:
    return value.type.dtype is DType.F32 and value.type.rank in ranks


def _labels(graph: Graph) -> dict[Node, bool | None]:
    """True: needs channel blocks; False: needs plain memory; None: takes either."""
    return {node: _label(node) for node in graph}


def _label(node: Node) -> bool | None:
    traits = get(node.op).traits
    if not all(_blockable(v) for v in node.outputs):
        return False
    if Trait.SPATIAL in traits or is_window(node):
        return _blockable(node.input(0))
    if Trait.BLOCKABLE not in traits and not is_rounded(node):
        return False
    computed = [v for v in node.inputs if v is not None and not v.is_const]
    if not computed or not all(_blockable(v, (4,)) for v in (*computed, *node.outputs)):
        return False
    # Constants take the layout of the others, which needs no axis of the result to come from them.
    return None if all((v.type.rank or 0) <= 4 for v in node.inputs if v is not None) else False


def _follows(node: Node, i: int) -> bool:
    """Operand `i` has the layout of the node; the others are plain always."""
    value = node.inputs[i]
    if value is None:
        return False
    traits = get(node.op).traits
    if Trait.SPATIAL in traits or is_window(node):
        return i == 0
    # Constants of elementwise ops are broadcast in whatever layout the others have; those of others are data.
    return not (value.is_const and (Trait.ELEMENTWISE in traits or is_rounded(node)))


def _asks_shape(node: Node) -> bool:
    """It reads no element, only numbers that every layout has."""
    return Trait.SHAPE_ONLY in get(node.op).traits and not any(v.type.dtype.is_float for v in node.outputs)


def _solve(graph: Graph, labels: dict[Node, bool | None]) -> set[Node]:
    """The nodes that work on channel blocks."""
    sides: Sides[Node] = Sides()
    for node, label in labels.items():
        leader = _leader(node, labels)
        if leader is None:
            sides.place(node, label)
        else:
            sides.join(node, leader)
    sides.place(graph.ret, False)
    for value in graph.values():
        if value.uses and _blockable(value):
            uses = [(n, i) for n, i in value.uses if n is graph.ret or not _asks_shape(n)]
            plain = any(n is not graph.ret and not _follows(n, i) for n, i in uses)
            readers = [n for n, i in uses if n is graph.ret or _follows(n, i)]
            sides.link(value.producer, [*readers, *([None] if plain else [])], bytes_of(value))
    return sides.solve()


def _leader(node: Node, labels: dict[Node, bool | None]) -> Node | None:
    """A node whose choice this one may share: converting its only operand is not cheaper than converting its result."""
    operands = [v for i, v in enumerate(node.inputs) if v is not None and _follows(node, i)]
    if labels[node] is not None or len(operands) != 1 or len(operands[0].uses) != 1:
        return None
    producer = operands[0].producer
    if producer is None or labels[producer] is not None or sum(map(bytes_of, node.outputs)) > bytes_of(operands[0]):
        return None
    return producer


def _convert(graph: Graph, value: Value, packed: set[Node]) -> int:
    """Inserts the conversion that readers of another layout share."""
    given = value.producer in packed
    wanting = []
    for node, i in value.uses:
        if node is not graph.ret and _asks_shape(node):
            continue
        wants = node is not graph.ret and node in packed and _follows(node, i)
        if wants is not given:
            wanting.append((node, i))
    if not wanting:
        return 0
    first = next(iter(graph)) if value.producer is None else value.producer.next
    b = Builder(graph, first, value.producer.origin + " > assign_layout" if value.producer else "assign_layout")
    converted: Value = b.ConvertLayout(value, to="NCHW" if given else "NC4HW4")
    if any(node is graph.ret for node, _ in wanting):
        # The outside knows this value by its name.
        converted.name, value.name = value.name, f"{value.name}_packed" if value.name else ""
    for node, i in wanting:
        node.set_input(i, converted)
    return 1
