"""Subgraphs of MNN's files: loops that ask a graph before each round, and what calls itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minnow
from minnow.schema.errors import FormatError
from minnow.schema.mnn import wire
from minnow.schema.mnn.decoder import decode


def op(type: str, inputs: list[int], outputs: list[int], main_type: str = "", **main: Any) -> dict[str, Any]:
    table = {"type": type, "name": f"{type}{outputs[0]}", "inputIndexes": inputs, "outputIndexes": outputs}
    return table | ({"main_type": main_type, "main": main} if main_type else {})


def given(index: int, **main: Any) -> dict[str, Any]:
    return op("Input", [], [index], "Input", **main)


def number(index: int, value: float) -> dict[str, Any]:
    floats = np.array([value], np.float32)
    return op("Const", [], [index], "Blob", dataType="DT_FLOAT", float32s=floats)


UNKNOWN = {"dims": [1], "dtype": "DT_INT32", "dformat": "NC4HW4"}
"""What MNN's converter writes of an input of a subgraph."""


def doubling(body: str = "body", **changes: Any) -> bytes:
    """x is doubled, and the steps are counted, while the sum of x is below a limit."""
    test = {
        "name": "test", "tensors": ["x", "limit", "sum", "less"], "inputs": [0, 1], "outputs": [3],
        "nodes": [
            given(0, **UNKNOWN), given(1, **UNKNOWN),
            op("Reduction", [0], [2], "ReductionParam", operation="SUM"),
            op("BinaryOp", [2, 1], [3], "BinaryOp", opType="LESS"),
        ],
    }  # fmt: skip
    rounds = {
        "name": "body", "tensors": ["x", "n", "one", "two", "y", "m"], "inputs": [0, 1], "outputs": [4, 5, 0],
        "nodes": [
            given(0, **UNKNOWN), given(1, **UNKNOWN), number(2, 1), number(3, 2),
            op("BinaryOp", [0, 3], [4], "BinaryOp", opType="MUL"),
            op("BinaryOp", [1, 2], [5], "BinaryOp", opType="ADD"),
        ],
    }  # fmt: skip
    if changes.get("recursive"):
        rounds["nodes"].append(op("While", [0, 1], [6], "WhileParam", body_graph="body", cond_graph="test"))
        rounds["tensors"].append("again")
    names = [{"data": ["x"]}, {"data": ["n"]}, {"data": ["limit"]}]
    loop = {
        "cond_graph": "test", "body_graph": body, "aliases_inputs": names,
        "aliases_updates": [{"data": ["y", "x"]}, {"data": ["m", "n"]}],
        "aliases_outputs": ["n", changes.get("result", "x")],
    }  # fmt: skip
    ops = [
        given(0, dims=[2, 3], dtype="DT_FLOAT", dformat="NCHW"), given(1, dtype="DT_FLOAT", dformat="NCHW"),
        number(2, 0),
        op("While", [0, 2, 1], [3, 4], "WhileParam", **loop),
    ]  # fmt: skip
    return wire.write({
        "oplists": ops, "tensorName": ["x", "limit", "zero", "n", "y"], "outputName": ["n", "y"],
        "sourceType": "TENSORFLOW", "subgraphs": [test, rounds],
    })  # fmt: skip


def right(x: np.ndarray, limit: float) -> tuple[int, np.ndarray]:
    n = 0
    while x.sum() < limit:
        x, n = x * 2, n + 1
    return n, x


@pytest.mark.parametrize("limit", [-1.0, 10.0, 1000.0])
@pytest.mark.parametrize("again", [False, True])
def test_a_loop_with_a_graph_for_its_condition(limit, again, tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = tmp_path / "loop.mnn"
    path.write_bytes(doubling())
    if again:
        minnow.convert(path, output=tmp_path / "again.mnn", verify=False)
        path = tmp_path / "again.mnn"
    y = minnow.load(path).run({"x": x, "limit": np.float32(limit)})
    n, want = right(x, limit)
    assert y["n"] == n
    np.testing.assert_array_equal(y["y"], want)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"body": "nothing"}, "there is no subgraph 'nothing'"),
        ({"recursive": True}, "calls itself"),
        ({"result": "other"}, "which it does not carry"),
    ],
)
def test_what_does_not_fit(changes, says):
    with pytest.raises(FormatError, match=says):
        decode(doubling(**changes))
