"""Convolution, pooling and quantized layers of every form, from ONNX file to engine, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_oracle import Array, OnnxNode, onnxruntime_runs

import minnow
from minnow.schema.errors import ModelError, UnsupportedError

Random = np.random.Generator
Given = tuple[str, list[Array | None], dict[str, Any], int, tuple[int, ...]]
"""An op, its operands, attributes, opset, and which operands the model holds."""


def check(given: Given, folder: Path, outputs: int = 1) -> None:
    op, operands, attrs, opset, held = given
    node = OnnxNode(op, operands, attrs, outputs, opset=opset)
    right = onnxruntime_runs(node)
    model, feed = node.model()
    for i in held:
        name = f"in{i}"
        if name in feed:
            model.graph.initializer.append(numpy_helper.from_array(feed.pop(name), name))
            model.graph.input.remove(next(v for v in model.graph.input if v.name == name))
    for output, r in zip(model.graph.output, right, strict=True):
        output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(r.dtype), r.shape))
    onnx.save(model, folder / "m.onnx")
    minnow.convert(folder / "m.onnx", verify=False)
    got = minnow.load(folder / "m.mnn", threads=1).run(feed)
    what = f"{op} of {[None if a is None else (a.dtype.name, a.shape) for a in operands]} with {attrs}"
    for output, r in zip(model.graph.output, right, strict=True):
        g = got[output.name]
        assert (g.dtype, g.shape) == (r.dtype, r.shape), what
        if r.dtype.kind in "iu":
            np.testing.assert_array_equal(g, r, err_msg=what)
        else:
            np.testing.assert_allclose(g, r, 1e-4, 1e-5 * max(1, np.abs(r).max(initial=0)), err_msg=what)


def numbers(rng: Random, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def small(rng: Random, dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def layer(rng: Random, dtype: Any, *shape: int) -> Array:
    """Weights with which onnxruntime is right on every processor.

    Without instructions for dot products of bytes it adds two products of signed ones in 16 bits, which saturate from
    7 bits on.
    """
    return rng.integers(-64, 64, shape).astype(dtype) if dtype is np.int8 else small(rng, dtype, *shape)


def types(rng: Random) -> tuple[Any, Any]:
    """Of data and of weights; onnxruntime takes no u8 weights with i8 data."""
    return [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)][rng.integers(3)]


def window(rng: Random, n: int, *, dilated: bool = True) -> tuple[list[int], dict[str, Any]]:
    """A kernel of `n` axes, and all the attributes that go with it. onnxruntime dilates no automatic padding."""
    kernel = rng.integers(1, 4, n).tolist()
    attrs: dict[str, Any] = {"strides": rng.integers(1, 4, n).tolist()}
    auto = str(rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto.startswith("SAME"):
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel, strict=True)]
    elif dilated:
        attrs["dilations"] = rng.integers(1, 3, n).tolist()
    if auto == "NOTSET":
        attrs["pads"] = [int(rng.integers(0, min(2, k))) for k in kernel * 2]
    else:
        attrs["auto_pad"] = auto
    return kernel, attrs


def sizes(rng: Random, n: int) -> list[int]:
    return [int(v) for v in rng.integers(5, 9, n)]


def conv(rng: Random) -> Given:
    n, g, ins, outs = (int(rng.integers(1, 4)) for _ in range(4))
    kernel, attrs = window(rng, n)
    x = numbers(rng, 2, g * ins, *sizes(rng, n))
    return "Conv", [x, numbers(rng, g * outs, ins, *kernel), numbers(rng, g * outs)], {**attrs, "group": g}, 22, (1, 2)


def conv_of_four_axes(rng: Random) -> Given:
    kernel, strides = rng.integers(1, 4, 4), rng.integers(1, 3, 4).tolist()
    g, pads = int(rng.integers(1, 3)), [int(rng.integers(0, min(2, k))) for k in [*kernel, *kernel]]
    x = numbers(rng, 2, 2 * g, *(int(v) for v in rng.integers(4, 6, 4)))
    attrs = {"strides": strides, "pads": pads, "group": g}
    return "Conv", [x, numbers(rng, 3 * g, 2, *kernel), numbers(rng, 3 * g)], attrs, 22, (1, 2)


def conv_transpose(rng: Random) -> Given:
    n, g, ins, outs = (int(rng.integers(1, 4)) for _ in range(4))
    kernel, attrs = window(rng, n)
    dimensions = sizes(rng, n)
    if rng.integers(2):
        attrs["output_padding"] = [int(rng.integers(0, s)) for s in attrs["strides"]]
    elif "auto_pad" in attrs:
        dilations = attrs.get("dilations", [1] * n)
        full = [
            s * (d - 1) + (k - 1) * r + 1
            for s, d, k, r in zip(attrs["strides"], dimensions, kernel, dilations, strict=True)
        ]
        attrs["output_shape"] = [int(f - rng.integers(0, 3)) for f in full]
    x = numbers(rng, 1, g * ins, *dimensions)
    operands = [x, numbers(rng, g * ins, outs, *kernel), numbers(rng, g * outs)]
    return "ConvTranspose", operands, {**attrs, "group": g}, 22, (1, 2)


def conv_integer(rng: Random) -> Given:
    n, g, ins, outs = (int(rng.integers(1, 4)) for _ in range(4))
    kernel, attrs = window(rng, n)
    weights = [np.uint8, np.int8][rng.integers(2)]
    operands = [small(rng, np.uint8, 2, g * ins, *sizes(rng, n)), layer(rng, weights, g * outs, ins, *kernel),
                small(rng, np.uint8) if rng.integers(2) else None, small(rng, weights)]  # fmt: skip
    return "ConvInteger", operands, {**attrs, "group": g}, 10, (1,)


def scale(rng: Random, *shape: int) -> Array:
    return np.asarray(rng.uniform(1e-3, 0.05, shape)).astype(np.float32)


def q_linear_conv(rng: Random) -> Given:
    n, g, ins, outs = (int(rng.integers(1, 4)) for _ in range(4))
    kernel, attrs = window(rng, n)
    data, weights = types(rng)
    o, per = g * outs, (g * outs,) if rng.integers(2) else ()
    zero = np.zeros(per, weights) if weights is np.int8 else np.full(per, rng.integers(256), weights)
    operands = [small(rng, data, 2, g * ins, *sizes(rng, n)), scale(rng), small(rng, data),
                layer(rng, weights, o, ins, *kernel), scale(rng, *per), zero, scale(rng), small(rng, data),
                rng.integers(-9999, 9999, o).astype(np.int32) if rng.integers(2) else None]  # fmt: skip
    return "QLinearConv", operands, {**attrs, "group": g}, 10, tuple(range(1, 9))


def _matrices(rng: Random) -> tuple[Array, Array, Any, Any]:
    data, weights = types(rng)
    m, k, n = (int(v) for v in rng.integers(1, 80, 3))
    batch = [int(rng.integers(1, 3))] if rng.integers(2) else []
    return small(rng, data, *batch, m, k), layer(rng, weights, k, n), data, weights


def q_linear_matmul(rng: Random) -> Given:
    a, b, data, weights = _matrices(rng)
    per = b.shape[-1:] if rng.integers(2) else ()
    operands = [a, scale(rng), small(rng, data), b, scale(rng, *per), small(rng, weights, *per), scale(rng),
                small(rng, data)]  # fmt: skip
    return "QLinearMatMul", operands, {}, 10, (3, 4, 5) if rng.integers(2) else ()


def matmul_integer(rng: Random) -> Given:
    a, b, data, weights = _matrices(rng)
    n = b.shape[-1]
    a_zero = [None, small(rng, data), small(rng, data, 1)][rng.integers(3)]
    b_zero = [None, small(rng, weights), small(rng, weights, 1), small(rng, weights, n)][rng.integers(4)]
    return "MatMulInteger", [a, b, a_zero, b_zero], {}, 10, (1,) if rng.integers(2) else ()


def _pool(op: str) -> Callable[[Random], Given]:
    def made(rng: Random) -> Given:
        n = int(rng.integers(1, 4))
        kernel, attrs = window(rng, n)
        attrs |= {"kernel_shape": kernel, "ceil_mode": int(rng.integers(2))}
        if op == "AveragePool":
            attrs["count_include_pad"] = int(rng.integers(2))
        if op == "LpPool":
            attrs["p"] = int(rng.integers(1, 4))
        if op == "MaxPool":
            attrs["storage_order"] = int(rng.integers(2))
        return op, [numbers(rng, 2, 3, *sizes(rng, n))], attrs, 22, ()

    made.__name__ = op
    return made


def max_unpool(rng: Random) -> Given:
    n = int(rng.integers(1, 4))
    kernel, strides, dimensions = rng.integers(1, 4, n), rng.integers(1, 4, n), np.array(sizes(rng, n))
    shape = np.array([1, 2, *((dimensions - 1) * strides + kernel)])
    x = numbers(rng, 1, 2, *dimensions)
    operands = [x, rng.permutation(int(np.prod(shape)))[: x.size].reshape(x.shape)]
    if rng.integers(2):
        shape[2:] += rng.integers(0, 3, n)
        operands.append(shape)
    return "MaxUnpool", operands, {"kernel_shape": kernel.tolist(), "strides": strides.tolist()}, 22, ()


def deform_conv(rng: Random) -> Given:
    g, parts, each, outs = (int(rng.integers(1, 3)) for _ in range(4))
    kernel, strides, dilations = (rng.integers(1, 3, 2) for _ in range(3))
    pads, dimensions = rng.integers(0, 2, 4), np.array(sizes(rng, 2))
    out = (dimensions + pads[:2] + pads[2:] - (kernel - 1) * dilations - 1) // strides + 1
    taps = int(parts * np.prod(kernel))
    operands = [numbers(rng, 1, g * parts * each, *dimensions), numbers(rng, g * outs, parts * each, *kernel),
                2 * numbers(rng, 1, 2 * taps, *out), numbers(rng, g * outs) if rng.integers(2) else None,
                numbers(rng, 1, taps, *out) if rng.integers(2) else None]  # fmt: skip
    attrs = {"strides": strides, "dilations": dilations, "pads": pads}
    return (
        "DeformConv",
        operands,
        {**{k: v.tolist() for k, v in attrs.items()}, "group": g, "offset_group": parts},
        19,
        (),
    )


def col2im(rng: Random) -> Given:
    n = int(rng.integers(1, 4))
    block, strides, pads = rng.integers(1, 4, n), rng.integers(1, 3, n), rng.integers(0, 2, 2 * n)
    image = np.array(sizes(rng, n))
    # onnxruntime dilates blocks of two axes only.
    dilations = rng.integers(1, 3, n) if n == 2 else np.ones(n, np.int64)
    count = (image + pads[:n] + pads[n:] - (block - 1) * dilations - 1) // strides + 1
    x = numbers(rng, 2, int(3 * np.prod(block)), int(np.prod(count)))
    attrs = {"strides": strides.tolist(), "pads": pads.tolist(), "dilations": dilations.tolist()}
    return "Col2Im", [x, image, block], attrs, 18, (2,)


def max_roi_pool(rng: Random) -> Given:
    corners = rng.uniform(-2, 9, (5, 4)).astype(np.float32)
    rois = np.concatenate([rng.integers(0, 2, (5, 1)).astype(np.float32), corners], 1)
    attrs = {"pooled_shape": rng.integers(1, 5, 2).tolist(), "spatial_scale": float(rng.uniform(0.5, 1.5))}
    return "MaxRoiPool", [numbers(rng, 2, 3, 8, 7), rois], attrs, 16, ()


MAKERS = [
    *(conv, conv_of_four_axes, conv_transpose, conv_integer, q_linear_conv, q_linear_matmul, matmul_integer),
    *(_pool("MaxPool"), _pool("AveragePool"), _pool("LpPool"), max_unpool, deform_conv, col2im, max_roi_pool),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_as_onnxruntime_computes(make: Callable[[Random], Given], tmp_path: Path) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        given = make(rng)
        # Places of the largest elements, and in the other order, are a result that few ask for.
        check(given, tmp_path, outputs=2 if given[0] == "MaxPool" and seed % 2 else 1)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("kernel", "strides", "pads", "gaps"), [
    ([2560, 2560], [2560, 2560], [0, 0, 0, 0], [1, 1]), ([9, 6], [3, 3], [1, 1, 1, 0], [1, 1]),
    ([2**20, 3], [2**20, 2], [0, 1, 0, 1], [1, 1]), ([4, 2], [6, 1], [0, 0, 0, 0], [3, 2]),
], ids=str)  # fmt: skip
def test_windows_larger_than_the_input(
    op: str, kernel: Any, strides: Any, pads: Any, gaps: Any, tmp_path: Path
) -> None:
    """Rounded up there is one window, which reaches over the end."""
    x = numbers(np.random.default_rng(0), 2, 3, 5, 4)
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": gaps, "ceil_mode": 1}
    if op == "AveragePool":
        attrs["count_include_pad"] = 1
    check((op, [x], attrs, 22, ()), tmp_path)
    model, feed = OnnxNode(op, [x], attrs, opset=22).model()
    right = minnow.load(tmp_path / "m.mnn").run(feed)
    for value in (*model.graph.input, *model.graph.output):  # sizes that only a run knows
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}{i}"
    onnx.save(model, tmp_path / "open.onnx")
    minnow.convert(tmp_path / "open.onnx", verify=False)
    got = minnow.load(tmp_path / "open.mnn").run(feed)
    np.testing.assert_allclose(*(next(iter(r.values())) for r in (got, right)), 1e-5)


@pytest.mark.parametrize("given", [
    ("Conv", [(0, 3, 5, 5), (4, 3, 3, 3)], {}), ("Conv", [(1, 0, 5, 5), (4, 0, 3, 3)], {}),
    ("Conv", [(1, 3, 5, 5), (0, 3, 3, 3)], {}), ("Conv", [(0, 3, 5, 5, 5), (4, 3, 3, 3, 3)], {}),
    ("Conv", [(2, 5, 5, 5), (5, 1, 3, 3)], {"group": 5}), ("Conv", [(2, 5, 4, 5, 5), (10, 1, 3, 3, 3)], {"group": 5}),
    ("ConvTranspose", [(0, 3, 5, 5), (3, 4, 3, 3)], {}),
    ("ConvTranspose", [(1, 5, 4, 4, 4), (5, 1, 2, 2, 2)], {"group": 5}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("held", [(), (1,)])
def test_nothing_and_channels_alone(given: Any, held: tuple[int, ...], tmp_path: Path) -> None:
    op, shapes, attrs = given
    check((op, [numbers(np.random.default_rng(0), *s) for s in shapes], attrs, 22, held), tmp_path)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("pad", ["NOTSET", "VALID", "SAME_UPPER"])
@pytest.mark.parametrize("gap", [2**31 - 1, 2**31, 2**61, 2**63 - 1, -(2**31), -(2**63)])
@pytest.mark.parametrize("held", [True, False])
def test_refuses_gaps_beyond_all_bounds(op: str, pad: str, gap: int, held: bool, tmp_path: Path) -> None:
    """Found by damaging files: numpy's own errors came out, of numbers too large for int32 or for memory."""
    for kernel in (1, 2):
        attrs = {"kernel_shape": [kernel], "dilations": [gap], "auto_pad": pad}
        model, _ = OnnxNode(op, [np.ones((1, 3, 8), np.float32)], attrs, 1, opset=22).model()
        if held:
            model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 3, 8), np.float32), "in0"))
            model.graph.input.pop()
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info(model.graph.output[0].name))
        onnx.save(model, tmp_path / "m.onnx")
        try:
            minnow.convert(tmp_path / "m.onnx", verify=False)
        except (ModelError, UnsupportedError):
            continue
        assert (kernel, pad) != (2, "VALID")  # the window does not fit
