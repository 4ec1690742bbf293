"""The executable spec of the IR, the part that ops know: operands, attributes and types of every node."""

from __future__ import annotations

from collections.abc import Mapping

from minnow.schema.errors import InternalError, MinnowError, ModelError
from minnow.schema.ir import Graph, Model, Node, TensorType
from minnow.schema.ir.type import merge
from minnow.schema.ir.verify import verify as verify_structure
from minnow.schema.registry.builder import infer_node
from minnow.schema.registry.op import Op, get


def verify(subject: Graph | Model, check_types: bool = True) -> None:
    """Checks all that holds for a graph or model between two passes.

    Args:
        subject: the graph, with all graphs nested in it, or the model.
        check_types: infer the types of every node again and compare them with the recorded ones.

    Raises:
        InternalError: something does not hold; the message names the node, `where` its origin.
    """
    verify_structure(subject)
    graph = subject.graph if isinstance(subject, Model) else subject
    for inner in graph.walk():
        for node in inner:
            _node(node, check_types)


def _node(node: Node, check_types: bool) -> None:
    try:
        op = get(node.op)
        _attributes(node, op)
        if not 0 < len(node.outputs) <= (op.most_outputs or len(node.outputs)):
            raise ModelError(f"it has {len(node.outputs)} outputs, not {op.most_outputs or 'one or more'}")
        for i, value in enumerate(node.inputs):
            if value is None and not op.operand(i).optional:
                raise ModelError(f"it needs its input '{op.operand(i).name}'")
        if node.inputs and node.inputs[-1] is None:
            raise ModelError("its list of inputs ends with one that is left out")
        if check_types:
            _types(node)
    except MinnowError as e:
        name = f" '{node.name}'" if node.name else ""
        raise InternalError(f"{node!r}{name}: {e.message}", where=node.origin, why=e.why) from e


def _attributes(node: Node, op: Op) -> None:
    for name, value in canonical(node, op).items():
        given = node.attrs.get(name, value)
        if not (given is value or (type(given) is type(value) and given == value)):
            raise ModelError(f"its attribute '{name}' is {given!r}, not {value!r} in canonical form")


def canonical(node: Node, op: Op) -> Mapping[str, object]:
    """The attributes as the op's signature has them. Raises ModelError for unknown, missing or bad ones."""
    return op.bind(len(node.inputs), node.attrs)


def _types(node: Node) -> None:
    inferred = infer_node(node)
    if len(inferred) != len(node.outputs):
        raise ModelError(f"its op infers {len(inferred)} outputs, it has {len(node.outputs)}")
    for i, (new, value) in enumerate(zip(inferred, node.outputs, strict=True)):
        if not _fits(new, value.type):
            raise ModelError(f"output {i} is recorded as {value.type}, and inferred as {new}")


def _fits(inferred: TensorType, recorded: TensorType) -> bool:
    if inferred.dtype is not recorded.dtype:
        return False
    try:
        merge(inferred.shape, recorded.shape)
    except ModelError:
        return False
    return True
