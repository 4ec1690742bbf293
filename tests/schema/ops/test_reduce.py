"""The numpy references of reductions, arg-max, top-k, running sums and softmax against ONNX, on all their samples."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, Row, cases, compare

from minnow.schema.ops import all_ops, get


def reduction(name: str) -> Row:
    def row(x: Array, at: Array | None = None, *, axes: tuple[int, ...] | None, keepdims: bool) -> OnnxNode:
        operand = at if axes is None else np.array(axes, np.int64)
        nothing = {"noop_with_empty_axes": int(operand is not None and operand.size == 0)}
        # onnxruntime drops a NaN that does not come first; it stays in numpy, PyTorch, the reference, and here.
        nan = name in ("ReduceMax", "ReduceMin") and x.dtype.kind == "f" and bool(np.isnan(x).any())
        return OnnxNode(name, (x, operand), {"keepdims": int(keepdims), **nothing}, by_reference=nan)

    return row


def arg(name: str) -> Row:
    def row(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> OnnxNode:
        attrs = {"axis": axis, "keepdims": int(keepdims), "select_last_index": int(select_last_index)}
        return OnnxNode(name, (x,), attrs)

    return row


def top_k(x: Array, k: Array, *, axis: int, largest: bool, sorted: bool) -> OnnxNode:
    attrs = {"axis": axis, "largest": int(largest), "sorted": int(sorted)}
    return OnnxNode("TopK", (x, k), attrs, outputs=2)


def cum_sum(x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> OnnxNode:
    return OnnxNode("CumSum", (x, axis), {"exclusive": int(exclusive), "reverse": int(reverse)})


def cum_prod(x: Array, axis: Array, *, exclusive: bool, reverse: bool) -> list[Array]:
    out = np.ones_like(x)  # element by element: the product of what comes before
    axis = int(axis.reshape(()))
    n = x.shape[axis]
    for i in range(n):
        before = range(i + exclusive, n) if reverse else range(i + 1 - exclusive)
        index = [slice(None)] * x.ndim
        index[axis] = i
        out[tuple(index)] = np.prod(
            np.take(x, before, axis).astype(np.float64 if x.dtype.kind == "f" else x.dtype), axis
        )
    return [out]


def along(name: str) -> Row:
    return lambda x, *, axis: OnnxNode(name, (x,), {"axis": axis})


REDUCTIONS = """
ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd
ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp
"""

TABLE: dict[str, Row] = {
    **{name: reduction(name) for name in REDUCTIONS.split()},
    "ArgMax": arg("ArgMax"),
    "ArgMin": arg("ArgMin"),
    "TopK": top_k,
    "CumSum": cum_sum,
    "CumProd": cum_prod,
    "Softmax": along("Softmax"),
    "LogSoftmax": along("LogSoftmax"),
    "Hardmax": along("Hardmax"),
}


@pytest.mark.parametrize(("op", "row", "samples"), cases(TABLE))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample, rtol=1e-5)


def test_every_op_is_judged():
    assert {op.name for op in all_ops() if op.module.endswith(".reduce")} == set(TABLE)


def test_unsorted_top_k_holds_the_same_elements():
    x = np.array([3, 1, 2, 5, 4], np.float32)
    values, indices = get("TopK").evaluate([x, np.array([3])], {"sorted": False})
    assert sorted(values.tolist()) == [3, 4, 5]
    assert (x[indices] == values).all()
