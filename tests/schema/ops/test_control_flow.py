"""The numpy references of If and Loop against ONNX, on all their samples."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper
from onnx_oracle import Array, OnnxNode, Row, cases, compare

from minnow.schema.ir import Graph, Value


def subgraph(graph: Graph, captured: int, prefix: str) -> onnx.GraphProto:
    """The ONNX form: what our graphs have as their last parameters, ONNX takes from the graph around."""
    outer = [f"in{i}" for i in range(9)]
    own = graph.params[: len(graph.params) - captured]
    names: dict[Value, str] = {v: f"{prefix}{i}" for i, v in enumerate(own)}
    # The operands of the node are the inputs of the test model, in0 and so on; the captured ones come last.
    first = 1 if not own else len(own)
    names |= {v: outer[first + i] for i, v in enumerate(graph.params[len(own) :])}
    initializers = []
    for value in graph.constants():
        names[value] = f"{prefix}const{len(names)}"
        initializers.append(onnx.numpy_helper.from_array(value.array, names[value]))
    nodes = []
    for node in graph:
        names[node.output] = f"{prefix}n{len(names)}"
        nodes.append(helper.make_node(node.op, [names[v] for v in node.inputs], [names[node.output]]))
    outputs = []
    for i, value in enumerate(graph.outputs):
        # An output has to be computed in the graph itself, and no output may stand twice.
        nodes.append(helper.make_node("Identity", [names[value]], [f"{prefix}out{i}"]))
        outputs.append(info(f"{prefix}out{i}", value))
    return helper.make_graph(nodes, graph.name, [info(names[v], v) for v in own], outputs, initializers)


def info(name: str, value: Value) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(value.type.dtype.numpy)
    return helper.make_tensor_value_info(name, code, value.type.shape)


def if_(cond: Array, *captured: Array, then_branch: Graph, else_branch: Graph) -> OnnxNode:
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    attrs = {name: subgraph(graph, len(captured), name[0]) for name, graph in branches.items()}
    return OnnxNode("If", (cond,), attrs, outputs=len(then_branch.outputs), around=captured)


def loop(trips: Any, cond: Any = None, *values: Array, body: Graph, num_carried: int) -> OnnxNode:
    captured = len(values) - num_carried
    return OnnxNode(
        "Loop",
        (trips, cond, *values[:num_carried]),
        {"body": subgraph(body, captured, "b")},
        outputs=len(body.outputs) - 1,
        around=values[num_carried:],
    )


TABLE: dict[str, Row] = {"If": if_, "Loop": loop}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample)
