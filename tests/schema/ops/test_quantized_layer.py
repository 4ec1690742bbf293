"""Quantized layers in one node: as onnxruntime computes QLinearConv, and as the parts that they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_oracle import exact_session

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import Arg, all_ops, get

_LIMITS = {"zero": 3, "to": DType.I8, "min": -128, "max": 127}


def _bytes(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(("group", "strides"), [(1, [1, 1]), (3, [2, 1])])
def test_conv_is_onnx_runtimes(kind: Any, group: int, strides: list[int]) -> None:
    rng = np.random.default_rng(5)
    # Weights of 7 bits: with more, onnxruntime saturates sums of two products on some processors.
    x, w = _bytes(rng, (2, 6, 7, 5), kind), rng.integers(-64, 64, (9, 6 // group, 3, 3)).astype(np.int8)
    bias = rng.integers(-3000, 3000, 9).astype(np.int32)
    zero, y_zero = np.asarray(7).astype(kind), np.asarray(11).astype(kind)
    scales = np.float32(0.05), (rng.random(9) * 0.01 + 0.002).astype(np.float32), np.float32(0.3)
    pads = [1, 0, 1, 2]
    values = {"xs": scales[0], "xz": zero, "w": w, "ws": scales[1], "wz": np.zeros(9, np.int8), "ys": scales[2],
              "yz": y_zero, "b": bias}  # fmt: skip
    wire = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    tensors = [helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.reshape(-1)) for k, v in
               values.items()]  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *values], ["y"], group=group, strides=strides, pads=pads)
    ends = [[helper.make_tensor_value_info(n, wire, None)] for n in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", *ends, tensors),
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)  # fmt: skip
    (want,) = exact_session(model).run(None, {"x": x})
    factor = (scales[0] * scales[1] / scales[2]).reshape(-1, 1, 1)
    attrs = {"strides": tuple(strides), "pads": tuple(pads), "dilations": (1, 1), "group": group}
    (got,) = get("QuantizedConv").evaluate(
        [x, w, zero, None, bias.reshape(-1, 1, 1), factor, y_zero], {**attrs, "to": DType.of(np.dtype(kind))}
    )
    # Rounding of the factor may put a sum on the other side of a half.
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert np.mean(got != want) < 0.01


def test_matrix_and_sum_are_their_parts() -> None:
    rng = np.random.default_rng(6)
    a, b = _bytes(rng, (5, 17), np.int8), _bytes(rng, (17, 3), np.int8)
    bias, factor, shift = (
        rng.integers(*ends, 3).astype(np.int32) for ends in ((-99, 99), (2**30, 2**31 - 1), (-9, -5))
    )
    sums = a.astype(np.int32) @ b.astype(np.int32) + bias
    (want,) = get("Requantize").evaluate([sums, factor, shift], _LIMITS)
    (got,) = get("QuantizedMatMul").evaluate([a, b, None, None, bias, factor, shift], _LIMITS)
    assert np.array_equal(got, want)
    tables = rng.integers(-9999, 9999, (2, 256)).astype(np.int32)
    sums = tables[0][a.astype(int) + 128] + tables[1][a[::-1].astype(int) + 128]
    (want,) = get("Requantize").evaluate([sums, factor[0], shift[0]], _LIMITS)
    (got,) = get("QuantizedSum").evaluate([a, factor[0], shift[0], tables[0], a[::-1], tables[1]], _LIMITS)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("each", [False, True], ids=["one scale", "one for each column"])
def test_dynamic_layer_is_onnx_runtimes(each: bool) -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((3, 5, 17)).astype(np.float32)
    shape = (9,) if each else ()
    w, zero = _bytes(rng, (17, 9), np.int8), _bytes(rng, shape, np.int8)
    scale = (rng.random(shape) * 0.01 + 0.002).astype(np.float32)
    bias = rng.standard_normal(9).astype(np.float32)
    constants = {"w": w, "wz": zero, "ws": scale, "b": bias}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["float"], to=1),
        helper.make_node("Mul", ["s", "ws"], ["factor"]),
        helper.make_node("Mul", ["float", "factor"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    ends = [[helper.make_tensor_value_info(n, 1, None)] for n in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", *ends, tensors),
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)  # fmt: skip
    (want,) = exact_session(model).run(None, {"x": x})
    (got,) = get("DynamicLinear").evaluate([x, w, bias, None, scale, zero], {"activation": "tanh"})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "w", "bias", "scale", "reason"),
    [
        ((2, 3), (3, 4), (4,), None, "scale"),
        ((2, 3), (3, 4), (4,), (3,), "scale"),
        ((2, 3), (3, 4), (1,), (), "bias"),
        ((), (3, 4), None, (), "weights"),
        ((2, 3), (1, 3, 4), None, (), "weights"),
        ((2, 5), (3, 4), None, (), "inner dimensions"),
    ],
)
def test_what_does_not_fit_a_dynamic_layer_is_refused(x: Any, w: Any, bias: Any, scale: Any, reason: str) -> None:
    floats = [None if s is None else _arg(DType.F32, *s) for s in (x, bias, None, scale)]
    with pytest.raises(ModelError, match=reason):
        get("DynamicLinear").infer([floats[0], _arg(DType.I8, *w), *floats[1:]], {}, 1)


def _arg(dtype: DType, *shape: int) -> Arg:
    return Arg(TensorType(dtype, shape))


@pytest.mark.parametrize(
    ("bias", "factor", "last", "to", "reason"),
    [
        (None, None, None, DType.I8, "needs the factor"),
        (None, _arg(DType.I32), None, DType.I8, "need shifts"),
        (_arg(DType.I32, 4), _arg(DType.F32), None, DType.I8, "bias of shape"),
        (None, _arg(DType.F32, 4), None, DType.I8, "factors of shape"),
        (None, _arg(DType.F32), None, DType.I16, "float factor"),
        (None, _arg(DType.F32), _arg(DType.U8), DType.I8, "zero point"),
    ],
)
def test_what_does_not_fit_is_refused(bias: Any, factor: Any, last: Any, to: DType, reason: str) -> None:
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "min": -128, "max": 127}
    operands = [_arg(DType.U8, 1, 3, 5, 5), _arg(DType.I8, 4, 3, 1, 1), None, None, bias, factor, last]
    with pytest.raises(ModelError, match=reason):
        get("QuantizedConv").infer(operands, {**window, "to": to}, 1)


def test_every_layer_is_judged() -> None:
    names = {o.name for o in all_ops() if o.module.endswith(".quantized_layer")}
    assert names == {"QuantizedConv", "QuantizedMatMul", "QuantizedSum", "DynamicLinear"}
