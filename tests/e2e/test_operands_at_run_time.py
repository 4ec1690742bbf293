"""Operands that ONNX lets a model compute: axes, sizes, counts and bounds that are inputs here, against onnxruntime.

Each model is converted once, with no dimension known, and run with many operands: what onnxruntime refuses must be
refused, with an error of ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import minnow
from minnow.errors import ModelError, UsageError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(20261121)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def i64(number: int) -> Array:
    return np.array(number, np.int64)


@dataclass
class Case:
    """One model, made of one node, and what it is run with.

    Attributes:
        op, attrs: the node.
        feeds: operands of each run; None is an operand that is left out, in all runs.
        outputs: how many.
        ranked: the ranks of the operands are declared; else not even these are known.
        refuses: what must be refused.
        by_reference: the judge is onnx's reference, where onnxruntime lacks the operator or is wrong.
    """

    op: str
    attrs: dict[str, Any]
    feeds: list[list[Any]]
    outputs: int = 1
    ranked: bool = True
    refuses: list[list[Any]] = field(default_factory=list)
    by_reference: bool = False
    opset: int = 22

    def __str__(self) -> str:
        text = ",".join(f"{k}={v}" for k, v in self.attrs.items())
        return f"{self.op}({text}){'' if self.ranked else ' of any rank'}"

    def model(self) -> onnx.ModelProto:
        first = self.feeds[0]
        names = ["" if a is None else f"in{i}" for i, a in enumerate(first)]
        results = [f"out{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, name="the_node", **self.attrs)
        inputs = []
        for i, array in enumerate(first):
            if array is not None:
                shapes = [np.shape(feed[i]) for feed in self.feeds]
                shape: Any = None
                if self.ranked and len({len(s) for s in shapes}) == 1:
                    dimensions = enumerate(zip(*shapes, strict=True))
                    shape = [d[0] if i and len(set(d)) == 1 else f"d{i}_{k}" for k, d in dimensions]
                dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(f"in{i}", dtype, shape))
        outputs = [helper.make_empty_tensor_value_info(n) for n in results]
        graph = helper.make_graph([node], "g", inputs, outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def judge(case: Case) -> Any:
    model = case.model()
    if case.by_reference:
        for output in model.graph.output:
            output.type.tensor_type.elem_type = TensorProto.FLOAT
        return ReferenceEvaluator(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def typed(case: Case, path: Path) -> Path:
    """The file, its outputs with their types and without shapes."""
    model = case.model()
    inferred = onnx.shape_inference.infer_shapes(model)
    for mine, theirs in zip(model.graph.output, inferred.graph.output, strict=True):
        mine.type.tensor_type.elem_type = theirs.type.tensor_type.elem_type
    onnx.save(model, str(path))
    return path


X = normal(2, 3, 4)
AXES: list[list[Any]] = [[X, ints(*a)] for a in ((0,), (-1,), (1, -1), (2, 0), (0, 1, 2), (-3,))]
HOLES: list[list[Any]] = [
    [normal(*s), ints(*a)] for s, a in (((2, 0, 4), (0,)), ((0, 3, 1), (1,)), ((1, 1, 1), (0, 2)))
]
REDUCTIONS = [
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
]


def reductions() -> list[Case]:
    out = []
    for op in REDUCTIONS:
        for keepdims in (0, 1):
            for noop in (0, 1):
                feeds = [[np.abs(x), a] for x, a in [*AXES, *HOLES, [X, ints()]]]
                refuses: list[list[Any]] = [[X, ints(3)], [X, ints(-4)], [X, ints(1, 1)]]
                attrs = {"keepdims": keepdims, "noop_with_empty_axes": noop}
                # onnxruntime skips what happens to a single element where nothing is reduced.
                out.append(Case(op, attrs, feeds, refuses=refuses, by_reference=True))
        out.append(Case(op, {"keepdims": 0}, [[np.abs(x), a] for x, a in AXES], ranked=False, by_reference=True))
    return out


PADS = [[X, ints(*p), np.float32(7)] for p in ((1, 2, 0, 0, 1, 3), (0,) * 6, (-1, 0, 1, 2, -2, 0))]
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], np.float32)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5]]], np.float32)
IMAGE = normal(1, 2, 4, 6)
LIMITS = [[X, np.float32(lo), np.float32(hi)] for lo, hi in ((-1, 1), (0, np.inf), (0.5, 0.5), (-np.inf, 0))]
WHOLE = np.arange(-6, 6, dtype=np.int64).reshape(3, 4)

CASES: list[Case] = [
    *reductions(),
    *(
        Case("CumSum", {"exclusive": e, "reverse": r}, [[X, i64(0)], [X, i64(-1)], [normal(3, 0, 2), i64(1)]],
             refuses=[[X, i64(3)], [X, i64(-4)]])
        for e in (0, 1) for r in (0, 1)
    ),
    Case("CumSum", {}, [[X, ints(1)], [normal(5), ints(-1)]], ranked=False),
    Case("Squeeze", {}, [[normal(1, 3, 1), ints(0)], [normal(1, 3, 1), ints(-1, 0)], [normal(0, 1, 2), ints(1)]],
         refuses=[[normal(1, 3, 1), ints(1)], [normal(1, 3, 1), ints(3)]]),
    Case("Unsqueeze", {}, [[normal(3, 2), ints(0)], [normal(3, 2), ints(-1, 1)], [normal(0, 2), ints(2, 0, 4)]],
         refuses=[[normal(3, 2), ints(3)], [normal(3, 2), ints(0, 0)]]),
    Case("Unsqueeze", {}, [[np.float32(3), ints(0)], [normal(2), ints(-1)]], ranked=False),
    Case("Split", {"axis": 1}, [[normal(2, 7), ints(3, 4)], [normal(2, 7), ints(7, 0)], [normal(0, 2), ints(1, 1)]],
         outputs=2, refuses=[[normal(2, 7), ints(3, 3)], [normal(2, 7), ints(8, -1)], [normal(2, 7), ints(7)]]),
    Case("Split", {"axis": -1, "num_outputs": 3}, [[normal(2, n)] for n in (9, 7, 3, 2, 8)], outputs=3,
         by_reference=True),
    Case("Split", {"axis": 0}, [[normal(n, 2)] for n in (4, 2, 6, 0)], outputs=2, opset=13),
    Case("Pad", {}, PADS, refuses=[[X, ints(1, 1), np.float32(0)], [X, ints(-3, 0, 0, 0, 0, 0), np.float32(0)]]),
    Case("Pad", {}, PADS, ranked=False),
    Case("Pad", {}, [[X, ints(*p), None, ints(*a)] for p, a in (((1, 2, 3, 4), (2, 0)), ((1, 0), (-1,)), ((2, 1), (1,)),
                                                               ((), ()))],
         refuses=[[X, ints(1, 1), None, ints(3)], [X, ints(1, 1, 1), None, ints(0)]]),
    *(Case("Pad", {"mode": m}, [f[:2] for f in PADS[: 3 - (m == "reflect")]]) for m in ("edge", "reflect", "wrap")),
    Case("Slice", {}, [[X, ints(1), ints(9), ints(1), ints(1)], [X, ints(-1, 0), ints(-9, 2), ints(2, -2), ints(-1, 1)],
                       [X, ints(3), ints(0), ints(0), ints(-2)], [X, ints(2), ints(1), ints(0), ints(1)]],
         refuses=[[X, ints(1), ints(2), ints(3), ints(1)], [X, ints(1), ints(2), ints(0), ints(0)]]),
    Case("Slice", {}, [[X, ints(1, 1), ints(2, 3)], [X, ints(0), ints(1)]]),
    Case("Clip", {}, LIMITS),
    Case("Clip", {}, [[X, None, np.float32(0.5)], [X, None, np.float32(-0.5)]]),
    Case("Clip", {}, [[WHOLE, i64(-2), i64(3)], [WHOLE, i64(4), i64(1)]]),
    *(
        Case("TopK", {"axis": a, "largest": g}, [[X, ints(1)], [X, ints(2)], [X, ints(0)]], outputs=2,
             refuses=[[X, ints(5)], [X, ints(-1)]])
        for a in (-1, 0) for g in (0, 1)
    ),
    Case("OneHot", {}, [[ints(0, 2, -1), i64(d), np.array([0, 1], np.float32)] for d in (3, 5, 4)]),
    Case("OneHot", {"axis": 0}, [[WHOLE, ints(6), normal(2)], [WHOLE, ints(1), normal(2)]]),
    Case("Tile", {}, [[X, ints(*r)] for r in ((1, 2, 3), (1, 1, 1), (2, 0, 1))], refuses=[[X, ints(1, 2)]]),
    Case("Expand", {}, [[normal(3, 1), ints(*s)] for s in ((2, 3, 4), (3, 4), (1, 1), (3, 0), (1,))],
         refuses=[[normal(3, 1), ints(2, 4)]]),
    Case("ConstantOfShape", {}, [[ints(2, 3)], [ints(0, 3)], [ints(1, 0)]]),
    Case("ConstantOfShape", {}, [[ints(2, 3)], [ints()], [ints(1, 0, 2)]]),
    Case("Range", {}, [[i64(a), i64(b), i64(c)] for a, b, c in ((0, 5, 1), (5, 0, -2), (0, 0, 1), (3, 1, 1))]),
    Case("Range", {}, [[np.float32(a), np.float32(b), np.float32(c)] for a, b, c in ((0, 1, 0.25), (1, 0, -0.3))]),
    Case("Reshape", {}, [[X, ints(*s)] for s in ((24,), (0, -1), (4, 3, 2), (-1, 1, 2, 1))],
         refuses=[[X, ints(5, 5)], [X, ints(-1, -1)], [X, ints(-1, 7)]]),
    Case("Reshape", {"allowzero": 1}, [[normal(0, 3), ints(*s)] for s in ((3, 0), (0,), (0, 7, 2))]),
    Case("Trilu", {}, [[X, i64(k)] for k in (0, 1, -2, 9)]),
    Case("Trilu", {"upper": 0}, [[normal(0, 3), i64(0)], [normal(3, 5), i64(-1)], [normal(4, 2), i64(1)]]),
    Case("Resize", {"mode": "linear"}, [[IMAGE, None, np.array([1, 1, *s], np.float32)] for s in ((2, 3), (0.5, 1))]),
    Case("Resize", {"mode": "nearest"}, [[IMAGE, None, None, ints(*s)] for s in ((1, 2, 8, 6), (1, 2, 3, 9))]),
    Case("Resize", {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
         [[IMAGE, np.array(r, np.float32), None, ints(1, 2, 3, 5)] for r in ((0, 0, 0.2, 0.1, 1, 1, 0.9, 1),
                                                                             (0, 0, 0, 0, 1, 1, 1, 0.5))]),
    Case("Upsample", {"mode": "nearest"}, [[IMAGE, np.array(s, np.float32)] for s in ((1, 1, 2, 3), (1, 1, 1, 2))],
         opset=9),
    Case("NonMaxSuppression", {},
         [[BOXES, SCORES, ints(n), np.array([iou], np.float32), np.array([low], np.float32)]
          for n, iou, low in ((3, 0.5, 0.0), (1, 0.5, 0.0), (5, 1.0, 0.0), (5, 0.0, 0.7), (0, 0.5, 0.0), (3, 0.5, 2))]),
    Case("Compress", {"axis": 1}, [[X, np.array(c)] for c in ((True, False, True), (False, False), (True,))]),
    Case("ReverseSequence", {}, [[normal(4, 2), ints(4, 1)], [normal(4, 3), ints(2, 3, 1)]]),
    Case("Gather", {"axis": 1}, [[X, ints(0, -1)], [X, ints(2, 2, 1)], [X, ints()]], refuses=[[X, ints(3)]]),
    Case("GatherND", {}, [[X, ints(0, 1)[None]], [X, ints(1, -1)[None]]], refuses=[[X, ints(2, 0)[None]]]),
    Case("ScatterElements", {"axis": 1}, [[X, np.full((2, 1, 4), k), normal(2, 1, 4)] for k in (0, 2, -1)],
         refuses=[[X, np.full((2, 1, 4), 3), normal(2, 1, 4)]]),
    # Weights that are inputs of dynamic dimensions.
    *(
        Case(op, {"strides": [2, 1], "pads": [1, 0, 1, 2]}, [[normal(n, 2, 7, 6), normal(*w)] for n, w in rows])
        for op, rows in {"Conv": [(1, (4, 2, 3, 3)), (3, (5, 2, 2, 1)), (0, (4, 2, 3, 3))],
                         "ConvTranspose": [(1, (2, 4, 3, 3)), (2, (2, 5, 2, 4))]}.items()
    ),
    *(
        Case("Einsum", {"equation": e}, [[normal(*x), normal(*y)] for x, y in rows], ranked=r)
        for r in (True, False)
        for e, rows in {"bhqd,bhkd->bhqk": [((2, 3, 4, 5), (2, 3, 6, 5)), ((1, 3, 4, 5), (2, 1, 6, 1))],
                        "ij,jk->k": [((2, 3), (3, 5)), ((2, 1), (3, 5)), ((0, 3), (3, 2))]}.items()
    ),
    Case("NonZero", {}, [[X], [np.zeros((2, 3), np.float32)], [normal(0, 3)]], ranked=False),
    Case("NonZero", {}, [[X], [np.zeros((2, 0, 3), np.float32)]]),
    Case("EyeLike", {"k": 1}, [[normal(3, 4)], [normal(0, 2)], [normal(1, 1)]]),
    Case("Dropout", {}, [[X, np.float32(r), np.array(False)] for r in (0.5, 0.0)]),
    Case("Dropout", {}, [[X, np.float32(0), np.array(True)], [X, np.float32(0.7), np.array(False)]], outputs=2),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_judge(case: Case, tmp_path: Path) -> None:
    path = typed(case, tmp_path / "m.onnx")
    minnow.convert(path, output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(tmp_path / "m.mnn", threads=1)
    oracle = judge(case)
    # Twice, so that plans are met again.
    for operands in [*case.feeds, *case.feeds]:
        feed = {f"in{i}": np.asarray(a) for i, a in enumerate(operands) if a is not None}
        want = oracle.run(None, feed)
        got = session.run(feed)
        for i, w in enumerate(want):
            g, what = got[f"out{i}"], f"{case} with {[None if a is None else np.asarray(a).tolist() for a in operands]}"
            assert g.shape == np.shape(w), what
            assert g.dtype == w.dtype, what
            np.testing.assert_allclose(
                g.astype(np.float64), np.asarray(w, np.float64), rtol=1e-5, atol=1e-5, err_msg=what
            )
    for operands in case.refuses:
        feed = {f"in{i}": np.asarray(a) for i, a in enumerate(operands) if a is not None}
        with pytest.raises((ModelError, UsageError), match="'"):  # which node or input it is
            session.run(feed)


@pytest.mark.parametrize("case", [c for c in CASES if c.refuses and not c.by_reference], ids=str)
def test_the_judge_refuses_it_too(case: Case) -> None:
    oracle = judge(case)
    for operands in case.refuses:
        feed = {f"in{i}": np.asarray(a) for i, a in enumerate(operands) if a is not None}
        with pytest.raises(Exception, match=r"ONNXRuntimeError|Got invalid|Unexpected"):
            oracle.run(None, feed)
