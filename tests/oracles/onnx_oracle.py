"""Runs single ONNX nodes in onnxruntime or onnx's own reference: the judges of our numpy references."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from minnow.runtime.verify.onnx_runtime import keep_exact, may_saturate
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.type import merge
from minnow.schema.ops import Arg, Op, Sample, get

Array = np.ndarray[Any, Any]


@dataclass
class OnnxNode:
    """What a sample is in ONNX: the op, its operands (None: left out) and attributes, and what to do to its results."""

    op: str
    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    after: Callable[[list[Array]], list[Array]] = lambda results: results
    opset: int = 22
    by_reference: bool = False  # where onnxruntime is not right; say why
    by_onnxruntime: bool = False  # where the reference is not right; say why
    around: Sequence[Array] = ()  # further inputs of the model, which subgraphs read by their names

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        names = ["" if a is None else f"in{i}" for i, a in enumerate(self.inputs)]
        feed = {n: a for n, a in zip(names, self.inputs, strict=True) if a is not None}
        feed |= {f"in{len(names) + i}": a for i, a in enumerate(self.around)}
        results = [f"out{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, **self.attrs)
        graph = helper.make_graph(
            [node],
            "one",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in feed.items()
            ],
            [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in results],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10), feed


def onnx_type(array: Array) -> int:
    """The code that ONNX has for the element type."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def exact_session(model: onnx.ModelProto, **settings: Any) -> onnxruntime.InferenceSession:
    """onnxruntime, whose products of dynamically quantized data are always exact. `settings`: of its options."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name, value in settings.items():
        setattr(options, name, value)
    made = model.SerializeToString()
    if may_saturate(made):
        keep_exact(options)
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


PLAIN = {"intra_op_num_threads": 1, "graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL}


def onnxruntime_runs(node: OnnxNode) -> list[Array]:
    """The results of onnxruntime, unoptimized. Raises its exceptions for what it does not implement."""
    model, feed = node.model()
    # The types of the results are onnxruntime's to infer.
    for output in model.graph.output:
        output.ClearField("type")
    return node.after(exact_session(model, **PLAIN).run(None, feed))


def reference_runs(node: OnnxNode) -> list[Array]:
    """The results of onnx's reference implementation."""
    model, feed = node.model()
    with np.errstate(all="ignore"):
        return node.after([np.asarray(r) for r in ReferenceEvaluator(model).run(None, feed)])


_Ort = onnxruntime.capi.onnxruntime_pybind11_state


def judged(node: OnnxNode) -> list[Array]:
    """What ONNX says: onnxruntime where it computes in the types at hand, the reference elsewhere.

    Types that ONNX does not allow (Neg of uint8) are no matter to the reference.
    """
    if node.by_reference:
        return reference_runs(node)
    try:
        return onnxruntime_runs(node)
    except (_Ort.NotImplemented, _Ort.InvalidGraph, _Ort.Fail, _Ort.RuntimeException):
        return reference_runs(node)
    except RuntimeError as e:
        if "bfloat16" in str(e) or "Numpy_type 256" in str(e):  # no numpy type of its own: onnxruntime's binding fails
            return reference_runs(node)
        raise


def judgments(node: OnnxNode) -> list[list[Array]]:
    """The results of both judges, where both are right and know the op in the types at hand."""
    out = [judged(node)]
    if not node.by_reference and not node.by_onnxruntime:
        with suppress(Exception):  # of any kind: it does not check what it is given
            out.append(reference_runs(node))
    return out


_EPILOGUES = {
    "relu": ("Relu", {}),
    "relu6": ("Clip", {}),
    "clip": ("Clip", {}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
    "hardswish": ("HardSwish", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "sigmoid": ("Sigmoid", {}),
    "silu": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "gelu": ("Gelu", {}),
}


def finished(y: Array, residual: Array | None, activation: str, alpha: float | None, beta: float | None) -> Array:
    """A result with a residual, and the activation as ONNX has it."""
    y = y if residual is None else y + residual
    if not activation:
        return y
    op, attrs = _EPILOGUES[activation]
    # Without limits it would cut off at the largest number.
    limits = (0.0, 6.0) if activation == "relu6" else (alpha or -np.inf, beta or np.inf)
    inputs = [y] if op != "Clip" else [y, *(np.asarray(v, y.dtype) for v in limits)]
    given = {k: v for k, v in (("alpha", alpha), ("beta", beta)) if v is not None and op != "Clip"}
    (result,) = judged(OnnxNode(op, inputs, {**attrs, **given}))
    with np.errstate(invalid="ignore"):
        return y * result if activation == "silu" else result


Row = Callable[..., "OnnxNode | list[Array]"]
"""Gives for operands and attributes the ONNX node, or the results by definition where ONNX has no such op."""


_AT_ONCE = 8  # a test of its own for each would take longer than what it does


def cases(table: Mapping[str, Row], which: Callable[[Sample], bool] = lambda sample: True) -> list[Any]:
    """Parameters (op, row, samples) for pytest: all samples of all ops of a table, a few in each test."""
    out = []
    for name, row in table.items():
        samples = [sample for sample in get(name).cases() if which(sample)]
        out += [
            pytest.param(get(name), row, samples[i : i + _AT_ONCE], id=f"{name}-{i}")
            for i in range(0, len(samples), _AT_ONCE)
        ]
    return out


def compare(
    op: Op,
    row: Row,
    sample: Sample,
    rtol: float = 2e-6,
    ask: Callable[[OnnxNode], list[list[Array]]] = lambda node: [judged(node)],
) -> None:
    """Asserts that the reference of an op gives what ONNX gives, and that its types are inferred right."""
    got = op.evaluate(sample.inputs, sample.attrs)
    _assert_inferred(op, sample, got)
    expected = row(*sample.inputs, **op.bind(len(sample.inputs), sample.attrs))
    for results in ask(expected) if isinstance(expected, OnnxNode) else [expected]:
        for i, (g, e) in enumerate(zip(got, results, strict=False)):
            _assert_same(g, np.asarray(e), sample.rtol or rtol, f"{op.name}({sample}) output {i}")


def _assert_same(got: Array, expected: Array, rtol: float, what: str) -> None:
    assert got.dtype == expected.dtype, f"{what}: {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what}: {got.shape}, expected {expected.shape}"
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    # Both judges compute several ops (Erf, HardSwish) in float32 whatever the type.
    rtol = {8: 1e-7, 2: 4e-3}.get(got.dtype.itemsize, rtol)
    wide = expected.astype(np.float64)
    # What cancels out leaves the rounding errors of the largest numbers.
    largest = np.abs(wide[np.isfinite(wide)]).max(initial=0.0)
    np.testing.assert_allclose(got.astype(np.float64), wide, rtol, rtol * min(largest, 1.0) + 1e-37, err_msg=what)


def _assert_inferred(op: Op, sample: Sample, got: Sequence[Array]) -> None:
    args = [None if a is None else Arg(TensorType(DType.of(a.dtype), a.shape), a) for a in sample.inputs]
    types = op.infer(args, sample.attrs, sample.n_outputs)
    assert len(types) == sample.n_outputs <= len(got)
    for type, array in zip(types, got, strict=False):
        assert type.dtype.numpy == array.dtype
        shape = type.shape or array.shape
        assert len(shape) == array.ndim
        assert all(isinstance(d, str) or d == n for d, n in zip(shape, array.shape, strict=True)), (
            f"{type} {array.shape}"
        )
    # The same with nothing but the types: what is inferred then must not say anything else.
    blind = [None if a is None else Arg(a.type) for a in args]
    for type, known in zip(op.infer(blind, sample.attrs, sample.n_outputs), types, strict=True):
        assert type.dtype is known.dtype
        merge(type.shape, known.shape)
