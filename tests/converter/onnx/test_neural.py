"""Forms of layers that no sample of an op has: batch normalization while training, Resize of opset 10."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_oracle import Array, OnnxNode, onnxruntime_runs

import minnow
from minnow.errors import ModelError


def converted(tmp_path: Any, node: OnnxNode, constant: bool = False, static: bool = True) -> list[Array]:
    model, feed = node.model()
    for value in () if static else model.graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{i}"
    for value in model.graph.output:
        value.ClearField("type")
    if constant:
        for name in [n for n in feed if n != "in0"]:
            model.graph.initializer.append(onnx.numpy_helper.from_array(feed.pop(name), name))
    onnx.save(model, tmp_path / "model.onnx")
    minnow.convert(tmp_path / "model.onnx", output=tmp_path / "model.mnn", verify=False)
    return list(minnow.load(tmp_path / "model.mnn").run(feed).values())


@pytest.mark.parametrize("shape", [(2, 3), (4, 3, 5), (1, 3, 4, 7)])
@pytest.mark.parametrize(("opset", "outputs"), [(7, 5), (9, 3), (9, 5), (14, 3), (15, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batch_normalization_while_training(tmp_path, shape, opset, outputs, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    scale, bias, mean = (rng.standard_normal(3).astype(dtype) for _ in range(3))
    var = rng.random(3).astype(dtype)
    attrs = {"epsilon": 1e-3, "momentum": 0.75} | ({"training_mode": 1} if opset > 9 else {})
    node = OnnxNode("BatchNormalization", (x, scale, bias, mean, var), attrs, outputs=outputs, opset=opset)
    got = converted(tmp_path, node)
    axes = (0, *range(2, x.ndim))
    own = [x.mean(axes), x.var(axes)]
    running = [old * 0.75 + new * 0.25 for old, new in zip((mean, var), own, strict=True)]
    s, t, m, v = (a.reshape(1, 3, *[1] * (x.ndim - 2)) for a in (scale, bias, *own))
    want = [(x - m) / np.sqrt(v + 1e-3) * s + t, *running, *own][:outputs]
    for g, w in zip(got, want, strict=True):
        assert g.dtype == dtype
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


def test_batch_normalization_of_halves_with_wide_statistics(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5)).astype(np.float16)
    numbers = [rng.random(3).astype(np.float32) for _ in range(4)]
    (got,) = converted(tmp_path, OnnxNode("BatchNormalization", (x, *numbers), opset=15))
    s, t, m, v = (a.reshape(1, 3, 1) for a in numbers)
    np.testing.assert_allclose(got, (x - m) / np.sqrt(v + 1e-5) * s + t, rtol=5e-3, atol=5e-3)


def test_batch_normalization_with_running_statistics_but_no_training_is_refused(tmp_path):
    operands = (np.zeros((2, 3, 4), np.float32), *(np.ones(3, np.float32) for _ in range(4)))
    with pytest.raises(ModelError, match="training_mode"):
        converted(tmp_path, OnnxNode("BatchNormalization", operands, outputs=3, opset=15))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 1.5, 0.6), (1, 1, 0.5, 0.7), (0.5, 1, 1, 2.5)])
def test_resize_of_opset_10(tmp_path, scales, constant):
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32)
    node = OnnxNode("Resize", (x, np.array(scales, np.float32)), opset=10)
    (got,) = converted(tmp_path, node, constant)
    np.testing.assert_array_equal(got, onnxruntime_runs(node)[0])


@pytest.mark.parametrize(
    ("of", "at"),
    [(np.float64, np.float32), (np.float32, np.float64), (np.float16, np.float32), (np.float32, np.float16)],
)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_of_two_types(tmp_path, of, at, mode):
    rng = np.random.default_rng(0)
    x, grid = rng.standard_normal((1, 2, 5, 4)).astype(of), rng.uniform(-1.3, 1.3, (1, 3, 2, 2)).astype(at)
    attrs = {"mode": mode, "padding_mode": "zeros"}
    (got,) = converted(tmp_path, OnnxNode("GridSample", (x, grid), attrs, opset=20))
    wide = (x.astype(np.float32), grid.astype(np.float32))
    assert got.dtype == of
    want = onnxruntime_runs(OnnxNode("GridSample", wide, attrs, opset=20))[0]
    np.testing.assert_allclose(got, want, rtol=5e-3, atol=5e-3)


def test_grid_sample_of_integers(tmp_path):
    x = np.arange(30, dtype=np.int32).reshape(1, 1, 5, 6)
    grid = np.random.default_rng(0).uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)
    (got,) = converted(tmp_path, OnnxNode("GridSample", (x, grid), {"mode": "nearest"}, opset=20))
    want = onnxruntime_runs(OnnxNode("GridSample", (x.astype(np.float32), grid), {"mode": "nearest"}, opset=20))[0]
    np.testing.assert_array_equal(got, want.astype(np.int32))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 8), (1, 2, 4, 5, 6)])
def test_places_of_the_largest_by_columns(tmp_path, shape, static):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    n = len(shape) - 2
    attrs = {"kernel_shape": (2,) * n, "strides": (2,) * n, "storage_order": 1}
    node = OnnxNode("MaxPool", (x,), attrs, outputs=2)
    for got, want in zip(converted(tmp_path, node, static=static), onnxruntime_runs(node), strict=True):
        np.testing.assert_array_equal(got, want)
