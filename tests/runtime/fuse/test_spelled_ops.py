"""Ops that a file spells out, since its format lacks them, are what they were; 1-D signals lie in rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow

NAN, INF = float("nan"), float("inf")
FLOATS = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e-45, 8388609.0, 3e38], np.float32
)
BOOLS = np.arange(14) % 3 == 0


def both(
    folder: Path, op: str, inputs: list[Any], constants: Sequence[Any] = (), **attrs: Any
) -> tuple[Any, Any, list[str]]:
    """What the engine and onnxruntime give, and the ops that the engine runs."""
    feed = {f"x{i}": x for i, x in enumerate(inputs)}
    weights = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants)]
    node = helper.make_node(op, [*feed, *(w.name for w in weights)], ["y"], **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feed.items()
    ]
    graph = helper.make_graph([node], "one", infos, [helper.make_empty_tensor_value_info("y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "m.onnx")
    want = onnxruntime.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"]).run(None, feed)[0]
    minnow.convert(folder / "m.onnx", output=folder / "m.mnn", verify=False)
    session = minnow.load(folder / "m.mnn", threads=2)
    ops = [row["op"] for row in session.profile(feed, 1)]
    return session.run(feed)["y"], want, ops


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "most"),
    [
        ("Not", [BOOLS], {}, 1),
        ("And", [BOOLS, BOOLS[::-1].copy()], {}, 1),
        ("And", [BOOLS.reshape(14, 1), BOOLS], {}, 1),
        ("Or", [BOOLS, ~BOOLS], {}, 1),
        ("Where", [BOOLS, FLOATS, FLOATS[::-1].copy()], {}, 1),
        ("Where", [BOOLS.reshape(14, 1), np.tile(FLOATS, 5), np.float32([7])], {}, 1),
        ("Cast", [BOOLS], {"to": TensorProto.FLOAT}, 1),
        ("Cast", [FLOATS], {"to": TensorProto.BOOL}, 2),
        ("IsNaN", [FLOATS], {}, 2),
        ("Equal", [FLOATS, np.roll(FLOATS, 1)], {}, 1),
        ("Equal", [FLOATS, FLOATS], {}, 1),
        ("Round", [FLOATS], {}, 1),
        ("Gather", [FLOATS, np.array([-14, 13, -1, 0])], {}, 2),
        ("GatherElements", [FLOATS.reshape(7, 2), np.array([[-7, 6], [0, -1]])], {}, 2),
        ("GatherElements", [FLOATS.reshape(7, 2), np.array([[-2], [1], [-1]])], {"axis": -1}, 2),
        ("ScatterElements", [FLOATS, np.array([-14, 5]), FLOATS[:2]], {}, 2),
        ("Cast", [FLOATS], {"to": TensorProto.FLOAT16}, 1),
        ("Max", [FLOATS, np.roll(FLOATS, 3)], {}, 1),
        ("Max", [FLOATS.reshape(14, 1), FLOATS], {}, 4),
        ("Min", [FLOATS, np.roll(FLOATS, 5)], {}, 1),
    ],
)
def test_is_what_it_was(tmp_path: Path, op: str, inputs: list[Any], attrs: dict[str, Any], most: int) -> None:
    got, want, ops = both(tmp_path, op, inputs, **attrs)
    assert len(ops) <= most, ops
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype == np.float32:
        number = ~np.isnan(want)
        if op == "Round":  # zeros keep their sign
            np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (9, 64), (17, 65), (8, 1000), (2, 0), (300, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_cumsum(tmp_path: Path, axis: int, shape: tuple[int, ...], dtype: Any, exclusive: int, reverse: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, shape).astype(dtype)
    got, want, _ = both(tmp_path, "CumSum", [x], [np.array(axis)], exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("is_image", [False, True])
@pytest.mark.parametrize(
    ("length", "channels", "out", "group"),
    [(1, 3, 5, 1), (40, 17, 33, 1), (997, 80, 64, 1), (61, 24, 24, 24), (53, 12, 6, 3)],
)
@pytest.mark.parametrize(("kernel", "stride", "pads"), [(1, 1, (0, 0)), (1, 2, (1, 0)), (3, 1, (1, 1)), (8, 5, (4, 3))])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_signals(
    tmp_path: Path,
    op: str,
    length: int,
    channels: int,
    out: int,
    group: int,
    kernel: int,
    stride: int,
    pads: tuple[int, int],
    is_image: bool,
) -> None:
    rng = np.random.default_rng(5)
    tail = (1,) if is_image else ()
    if op == "ConvTranspose" and length == 1:
        length = 2
    elif length == 1:
        length = kernel
    x = rng.standard_normal((2, channels, length, *tail)).astype(np.float32)
    shape = (out, channels // group) if op == "Conv" else (channels, out // group)
    w = rng.standard_normal((*shape, kernel, *tail)).astype(np.float32)
    b = rng.standard_normal(out).astype(np.float32)
    attrs = {"group": group, "strides": [stride, *tail], "pads": [pads[0], 0, pads[1], 0] if is_image else list(pads)}
    got, want, _ = both(tmp_path, op, [x], [w, b], **attrs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * float(np.abs(want).max()))
