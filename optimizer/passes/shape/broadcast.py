"""What is repeated although its readers would repeat it: expansions and masks that leave some axes to others."""

from __future__ import annotations

from collections.abc import Sequence

from minnow.optimizer.facts.affine import affine
from minnow.optimizer.facts.derive import derived
from minnow.optimizer.rewrite import erase_dead, graph_pass
from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Graph, Node, TensorType, Value
from minnow.schema.ir.graph import RET
from minnow.schema.ir.type import merge, same_dim
from minnow.schema.ops import Builder, Trait, get, infer_node
from minnow.schema.registry.symbolic import Memo

_MAX_NODES = 32


@graph_pass(level=1)
def eliminate_repetition(graph: Graph) -> int:
    """An expansion, or a condition that is always met, of which all readers broadcast what is left in its place.

    What stands between is computed of the smaller tensor then, and once.

    Given:
        graph g(%x: f32[1,S], %y: f32[N,S]) {
          %i: i64[2] = Shape(%y)
          %a: f32[N,S] = Expand(%x, %i)
          %b: f32[N,S] = Exp(%a)
          %c: f32[N,1,S] = Unsqueeze(%b) {axes=(1,)}
          %d: f32[N,1,S] = Unsqueeze(%y) {axes=(1,)}
          %z: f32[N,1,S] = Mul(%c, %d)
          return %z
        }
    Result:
        graph g(%x: f32[1,S], %y: f32[N,S]) {
          %b: f32[1,S] = Exp(%x)
          %c: f32[1,1,S] = Unsqueeze(%b) {axes=(1,)}
          %d: f32[N,1,S] = Unsqueeze(%y) {axes=(1,)}
          %z: f32[N,1,S] = Mul(%c, %d)
          return %z
        }
    """
    changes = 0
    for node in graph:
        small = _left(node)
        if small is None or not node.output.uses:
            continue
        changed = _spread(node.output, small)
        if changed is not None:
            _apply(graph, node, small, changed)
            changes += 1
    return changes


def _left(node: Node) -> Value | None:
    """What a node repeats."""
    if node.op == "Expand":
        x = node.input(0)
    elif node.op in ("And", "Or"):
        truth = int(node.op == "And")
        known = [None if v is None else affine(v) for v in node.inputs]
        sure = [k is not None and k.uniform is not None and k.uniform.integer == truth for k in known]
        if sure.count(True) != 1:
            return None
        x = node.input(sure.index(False))
    else:
        return None
    rank, whole = x.type.rank, node.output.type.rank
    return x if rank is not None and whole is not None and rank <= whole and not x.is_const else None


def _spread(old: Value, small: Value) -> dict[Value, TensorType] | None:
    """The types of what is computed of the smaller tensor; None when some reader does not broadcast it."""
    lead = (old.type.rank or 0) - (small.type.rank or 0)
    changed = {old: old.type.with_shape((*[1] * lead, *(small.type.shape or ())))}
    todo = list(dict.fromkeys(old.users))
    seen: set[Node] = set()
    while todo:
        node = todo.pop(0)
        if node in seen:
            continue
        if len(seen) == _MAX_NODES or node.op == RET or node.subgraphs or len(node.outputs) != 1:
            return None
        if not _broadcasts(node, changed):
            return None
        try:
            type = _inferred(node, changed)
        except ModelError:
            return None
        after, before = type.shape, node.output.type.shape
        if after is None or before is None or len(after) != len(before):
            return None
        if not all(map(same_dim, after, before)):
            if any(n in seen for n in node.output.users):
                return None  # a reader was looked at before all its operands were
            changed[node.output] = type
            todo += [n for n in node.output.users if n not in todo]
        seen.add(node)
    return changed


def _inferred(node: Node, changed: dict[Value, TensorType]) -> TensorType:
    inputs = [Value(changed[v], v.name) if v is not None and v in changed else v for v in node.inputs]
    twin = Node(node.op, inputs, node.attrs, [v.type for v in node.outputs])
    try:
        (type,) = infer_node(twin)
        found = derived(twin, Memo())
        if found is not None:
            dims = tuple(UNKNOWN if e is None or not e.at_least(0) else e.dim for e in found)
            type = type.with_shape(merge(type.shape, dims))
    finally:
        for i in range(len(inputs)):
            twin.set_input(i, None)
    return type


def _broadcasts(node: Node, changed: dict[Value, TensorType]) -> bool:
    """The node gives for a repeated operand what it gives for the operand, repeated."""
    traits = get(node.op).traits
    if Trait.ELEMENTWISE in traits:
        return Trait.CHANNEL_OPERANDS not in traits
    operand = node.inputs[0]
    if node.op in ("Unsqueeze", "Transpose"):
        return len(node.inputs) == 1
    if node.op == "Gather":
        # The rows are the same whichever way the index is repeated.
        return operand not in changed
    if node.op == "MatMul":
        return all(v is None or v not in changed or _same_ends(v, changed[v], 2) for v in node.inputs)
    if node.op == "Linear":
        return operand is not None and all(
            v not in changed for v in node.inputs[1:]) and _same_ends(operand, changed[operand], 1)  # fmt: skip
    return False


def _same_ends(value: Value, type: TensorType, n: int) -> bool:
    """The last axes are as they were."""
    before, after = value.type.shape, type.shape
    return (
        before is not None
        and after is not None
        and len(after) == len(before) >= n
        and all(map(same_dim, after[-n:], before[-n:]))
    )


def _apply(graph: Graph, node: Node, small: Value, changed: dict[Value, TensorType]) -> None:
    old = node.output
    lead: Sequence[int] = range((old.type.rank or 0) - (small.type.rank or 0))
    b = Builder(graph, node, f"{node.origin} > eliminate_repetition")
    new = b.Unsqueeze(small, axes=tuple(lead)) if lead else small
    for value, type in changed.items():
        if value is not old:
            value.type = type
    old.replace_all_uses(new)
    erase_dead(graph, [node])
