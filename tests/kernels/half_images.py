"""Images that precision "low" keeps in bfloat16 between convolutions, against the numpy references.

Functions that return a line for each case that is wrong. test_low_precision.py calls them in processes that compute
with a certain unit."""

from __future__ import annotations

import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx_spelling import Spelling

import minnow
from minnow.runtime import _engine
from minnow.schema.ops import get

HIGH, NORMAL, LOW = 0, 1, 2


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def run(op: str, attrs: dict, values: list, outputs: int = 1, threads: int = 1, precision: int = LOW) -> list:
    return _engine.run_op(op, attrs, values, outputs, threads, False, True, precision)


def error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest error as a fraction of the scale."""
    assert got.shape == want.shape
    return float(np.abs(got - want).max() / max(1, np.abs(want).max())) if want.size else 0.0


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(max(1, shape[-1]))).astype(np.float32)


ROOM = {LOW: 2e-6, NORMAL: 2e-5}
LEVELS = {"high": 0, "normal": 3e-5, "low": 2e-2}


# n, channels, height, width, outputs, kernel, stride, padding, dilation
CONVOLUTIONS = [
    (1, 16, 5, 5, 16, 1, 1, 0, 1), (2, 33, 9, 7, 17, 1, 1, 0, 1), (2, 67, 13, 11, 129, 1, 1, 0, 1),
    (1, 64, 29, 31, 72, 3, 1, 1, 1), (3, 35, 18, 9, 40, 3, 1, 0, 1), (1, 48, 15, 67, 50, 3, 2, 1, 1),
    (2, 20, 23, 19, 33, 3, 1, 2, 2), (1, 24, 3, 40, 20, 5, 1, 4, 1), (1, 130, 15, 15, 65, 1, 2, 0, 1),
    (1, 32, 7, 7, 32, 7, 1, 3, 1), (1, 16, 2, 2, 16, 3, 1, 6, 3), (1, 40, 1, 70, 40, 3, 1, 1, 1),
    (0, 16, 4, 4, 16, 3, 1, 1, 1),
]  # fmt: skip


# Of a few channels, which lie in planes; more of such windows are a step of a tile than not.
CONVOLUTIONS_OF_FEW = [
    (1, 3, 23, 37, 64, 7, 2, 3, 1), (2, 3, 18, 21, 16, 3, 2, 1, 1), (1, 1, 9, 70, 33, 5, 1, 2, 1),
    (2, 4, 13, 11, 40, 3, 1, 0, 2), (1, 2, 5, 5, 17, 1, 1, 0, 1), (1, 3, 40, 19, 20, 11, 4, 2, 1),
    (1, 4, 7, 9, 16, 3, 1, 3, 1), (2, 3, 1, 1, 19, 3, 1, 1, 1),
]  # fmt: skip


# Of which a thread holds a part of an image at a time, or some images.
CONVOLUTIONS_IN_PARTS = [
    (2, 500, 17, 31, 24, 3, 1, 1, 1), (1, 500, 35, 37, 20, 3, 2, 1, 1), (1, 480, 22, 33, 16, 3, 1, 1, 2),
    (30, 16, 5, 5, 16, 3, 1, 1, 1), (1, 32, 240, 12, 16, 3, 1, 1, 1),
]  # fmt: skip


def images_of_tiles(threads: int) -> list[str]:
    """Images that convolutions leave to each other in bfloat16: results differ by their last rounding alone."""
    rng = np.random.default_rng(12)
    wrong = []
    for case in CONVOLUTIONS + CONVOLUTIONS_OF_FEW + CONVOLUTIONS_IN_PARTS:
        n, channels, height, width, outputs, kernel, stride, padding, dilation = case
        x, w = normal(rng, n, channels, height, width), normal(rng, outputs, channels, kernel, kernel) / kernel
        b = normal(rng, outputs)
        attrs = {"strides": [stride] * 2, "pads": [padding] * 4, "dilations": [dilation] * 2, "group": 1}
        exact = get("Conv").evaluate([rounded(x), rounded(w), b], attrs)[0]
        residual = rounded(normal(rng, *exact.shape))
        sums = exact + residual
        half = {**attrs, "half_image": True}
        for activation, values, constants, want in (
            ("", [x, w], True, exact - b[:, None, None]),
            ("relu", [x, w, b], False, np.maximum(exact, 0)),
            ("relu", [x, w, b, residual], True, np.maximum(sums, 0)),
            ("silu", [x, w, b, residual], True, sums / (1 + np.exp(-sums))),
        ):
            call = ("Conv", {**half, "activation": activation}, values, 1, threads, True, constants, LOW)
            got = _engine.run_op(*call)[0]
            room = np.abs(want) / 255 + ROOM[LOW] * max(1, np.abs(want).max(initial=0))
            if got.shape != want.shape or not (np.abs(got - want) <= room).all():
                wrong.append(f"image {case} {activation}: {error(got, want):.2g}")
            if not np.array_equal(got, rounded(got)):
                wrong.append(f"image {case} {activation} is not of bfloat16")
        if x.size:
            x[-1, -1, -1, -1] = np.nan
            got = _engine.run_op("Conv", half, [x, w, b], 1, threads, True, True, LOW)[0]
            if not np.array_equal(np.isnan(got), np.isnan(get("Conv").evaluate([x, w, b], attrs)[0])):
                wrong.append(f"image {case}: NaN does not stay where it belongs")
    return wrong


# n, channels, height, width, kernel, stride, padding, dilation
DEPTHWISE = [
    (1, 16, 9, 7, 3, 1, 1, 1), (2, 67, 13, 20, 3, 2, 1, 1), (1, 64, 5, 33, 5, 1, 2, 1), (1, 40, 7, 50, 3, 1, 2, 2),
    (1, 33, 1, 1, 3, 1, 1, 1), (2, 48, 6, 3, 7, 2, 3, 1), (1, 96, 30, 19, 2, 2, 0, 1), (1, 32, 2, 2, 3, 1, 6, 3),
]  # fmt: skip


def depthwise_of_images(threads: int) -> list[str]:
    """Each channel by itself: weights are not rounded, nor is anything else but the results."""
    rng = np.random.default_rng(17)
    wrong = []
    for case in DEPTHWISE:
        n, channels, height, width, kernel, stride, padding, dilation = case
        x, w = rounded(normal(rng, n, channels, height, width)), normal(rng, channels, 1, kernel, kernel)
        b = normal(rng, channels)
        window = {"strides": [stride] * 2, "pads": [padding] * 4, "dilations": [dilation] * 2, "group": channels}
        for activation, values, constants in (
            ("", [x, w], True),
            ("relu", [x, w, b], False),
            ("silu", [x, w, b], True),
        ):
            want = get("Conv").evaluate(values, window)[0]
            if activation:
                want = get(activation.capitalize()).evaluate([want], {})[0]
            attrs = {**window, "activation": activation, "half_image": True}
            got = _engine.run_op("Conv", attrs, values, 1, threads, True, constants, LOW)[0]
            if got.shape != want.shape or not (np.abs(got - want) <= np.abs(want) / 255 + 1e-6).all():
                wrong.append(f"depthwise {case} {activation}: {error(got, want):.2g}")
            if not np.array_equal(got, rounded(got)):
                wrong.append(f"depthwise {case} {activation} is not of bfloat16")
        # In the image, and in the weights, as a number that rounding up would make -0. What is multiplied with padding
        # is no number in the reference alone.
        if padding == 0:
            w[1, 0, 0, 0] = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
        x[-1, -1, -1, -1] = np.nan
        got = _engine.run_op("Conv", {**window, "half_image": True}, [x, w, b], 1, threads, True, True, LOW)[0]
        if not np.array_equal(np.isnan(got), np.isnan(get("Conv").evaluate([x, w, b], window)[0])):
            wrong.append(f"depthwise {case}: NaN does not stay where it belongs")
    return wrong


def other_ops_of_images(threads: int) -> list[str]:
    """What lies between such convolutions: their numbers are of bfloat16, and NaN is where the reference has it."""
    rng = np.random.default_rng(15)
    wrong = []
    sides, none = [1, 1], [0, 0, 0, 0]
    pools = [
        {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": sides},
        {"kernel": [2, 2], "strides": [2, 2], "pads": none, "dilations": sides, "ceil_mode": True},
        {"kernel": [3, 2], "strides": [1, 3], "pads": [0, 1, 2, 0], "dilations": [2, 1]},
    ]
    cases = [(op, attrs) for op in ("MaxPool", "AveragePool") for attrs in pools]
    cases += [("AveragePool", {**pools[0], "count_include_pad": True}), ("GlobalAveragePool", {})]
    cases += [
        ("Resize", {"mode": mode, "coordinate_mode": place})
        for mode, place in (("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel"))
    ]
    for (n, c, height, width), (op, attrs) in itertools.product(((1, 16, 7, 9), (2, 67, 13, 8), (1, 64, 5, 33)), cases):
        x = rounded(normal(rng, n, c, height, width))
        values: list = [x]
        if op == "Resize":
            values = [x, None, None, np.array([n, c, 2 * height - 1, width + 3], np.int64)]
        # What is not finite is spread by weights of 0 in other places, as it is in other layouts.
        for special in (0,) if op == "Resize" else (0, np.nan, np.inf, -np.inf):
            x[0, 1, -1, -1] = special
            want = get(op).evaluate(values, attrs)[0]
            got = _engine.run_op(op, {**attrs, "half_image": True}, values, 1, threads, True, True, LOW)[0]
            exact = op in ("MaxPool", "GlobalAveragePool")
            room = (1e-6 if exact else 1 / 255) * np.abs(want) + 1e-6
            with np.errstate(invalid="ignore"):
                same = (np.abs(got - want) <= room) | (got == want) | (np.isnan(got) & np.isnan(want))
            if got.shape != want.shape or not same.all():
                wrong.append(f"{op} of images {x.shape} {attrs} {special}")
            if op != "GlobalAveragePool" and not np.array_equal(got, rounded(got), equal_nan=True):
                wrong.append(f"{op} of images {x.shape} {attrs} is not of bfloat16")
    for shapes in ((16, 32), (33, 40, 17), (64, 1, 67)):
        parts = [rounded(normal(rng, 2, c, 5, 7)) for c in shapes]
        got = _engine.run_op("Concat", {"axis": 1, "half_image": True}, parts, 1, threads, True, True, LOW)[0]
        if not np.array_equal(got, np.concatenate(parts, 1)):
            wrong.append(f"Concat of images {shapes}")
    for n, c, height, width, outputs, kernel in ((1, 64, 7, 9, 48, 2), (2, 33, 5, 17, 70, 3), (1, 40, 3, 40, 32, 1)):
        x, w = rounded(normal(rng, n, c, height, width)), normal(rng, c, outputs, kernel, kernel)
        attrs = {"strides": [kernel] * 2, "pads": none, "dilations": sides, "output_padding": [0, 0]}
        values = [x, w, normal(rng, outputs), rounded(normal(rng, n, outputs, kernel * height, kernel * width))]
        want = np.maximum(get("ConvTranspose").evaluate([x, rounded(w), *values[2:]], attrs)[0], 0)
        half = {**attrs, "half_image": True, "activation": "relu"}
        got = _engine.run_op("ConvTranspose", half, values, 1, threads, True, True, LOW)[0]
        if got.shape != want.shape or not (np.abs(got - want) <= np.abs(want) / 255 + 1e-5).all():
            wrong.append(f"ConvTranspose of images {x.shape}: {error(got, want):.2g}")
    return wrong


def judged(path: Path, inputs: dict[str, np.ndarray], threads: int) -> tuple[list[str], list[str]]:
    """What is wrong with the numbers of precision "low", and the schemes of the nodes."""
    minnow.convert(path, output=path.with_suffix(".mnn"), verify=False)
    session = minnow.load(path.with_suffix(".mnn"), threads=threads, precision="low")
    got = next(iter(session.run(inputs).values()))
    want = next(iter(minnow.load(path.with_suffix(".mnn"), precision="high").run(inputs).values()))
    wrong = [] if error(got, want) <= LEVELS["low"] else [f"{error(got, want):.2g}"]
    return wrong, [row["scheme"] for row in session.profile(inputs, 1)]


def network_of_images(folder: Path, threads: int) -> list[str]:
    """Convolutions one after the other, with a sum, strides, and an image that something else reads as well."""
    s = Spelling()
    rng = np.random.default_rng(13)

    def conv(x: str, channels: int, outputs: int, kernel: int, **attrs: object) -> str:
        w = normal(rng, outputs, channels, kernel, kernel) * np.float32(1.5 / kernel)
        return s.Conv(x, s.constant(w), s.constant(normal(rng, outputs)), kernel_shape=[kernel] * 2, **attrs)

    first = s.Relu(conv(s.input(2, 19, 23, 17), 19, 40, 3, pads=[1] * 4))
    inner = s.Relu(conv(first, 40, 66, 1))
    y = s.Relu(s.Add(conv(inner, 66, 40, 3, pads=[1] * 4), first))
    y = s.Relu(conv(y, 40, 70, 3, strides=[2, 2], pads=[1] * 4))
    y = s.Relu(conv(y, 70, 33, 1, strides=[2, 2]))
    y = conv(y, 33, 48, 3, dilations=[2, 2], pads=[2] * 4)
    (folder / "i.onnx").write_bytes(s.model(s.Add(s.ReduceMean(y), s.ReduceMax(first))))
    wrong, schemes = judged(folder / "i.onnx", s.inputs, threads)
    if sum("_last_" in scheme for scheme in schemes) != 6 or schemes.count("pack") != 1:
        wrong.append(str(schemes))
    return [f"network of images: {what}" for what in wrong]


def network_from_a_picture(folder: Path, threads: int) -> list[str]:
    """From planes of three channels to means: poolings, branches, and back to a larger size, without a conversion."""
    s = Spelling()
    rng = np.random.default_rng(16)

    def conv(x: str, channels: int, outputs: int, kernel: int, op: str = "Conv", **attrs: object) -> str:
        shape = (channels, outputs) if op == "ConvTranspose" else (outputs, channels)
        w = normal(rng, *shape, kernel, kernel) * np.float32(1.5 / kernel)
        return s.op(op, x, s.constant(w), s.constant(normal(rng, outputs)), kernel_shape=[kernel] * 2, **attrs)[0]

    x = s.Relu(conv(s.input(2, 3, 41, 37), 3, 40, 7, strides=[2, 2], pads=[3] * 4))
    x = s.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    left = s.Relu(conv(x, 40, 33, 3, pads=[1] * 4))
    right = conv(s.AveragePool(x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4), 40, 48, 1)
    y = s.Relu(conv(s.Concat(left, right, axis=1), 81, 64, 3, pads=[1] * 4))
    y = conv(y, 64, 35, 2, op="ConvTranspose", strides=[2, 2])
    y = conv(s.Resize(y, "", s.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear"), 35, 48, 1)
    (folder / "p.onnx").write_bytes(s.model(s.GlobalAveragePool(s.Relu(y))))
    wrong, schemes = judged(folder / "p.onnx", s.inputs, threads)
    if sum("_last_" in scheme for scheme in schemes) != 6 or {"pack", "unpack"} & set(schemes):
        wrong.append(str(schemes))
    return [f"network from a picture: {what}" for what in wrong]


def rectified(s: Spelling, rng: np.random.Generator, x: str, shape: tuple[int, int, int], group: int = 1) -> str:
    """A convolution of that many channels, results and taps along an axis, as large as its input, and Relu."""
    channels, outputs, kernel = shape
    w = s.constant(normal(rng, outputs, channels // group, kernel, kernel) * np.float32(2 / kernel))
    attrs = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "group": group}
    return s.Relu(s.Conv(x, w, s.constant(normal(rng, outputs)), **attrs))


def network_of_joined_images(folder: Path, threads: int) -> list[str]:
    """Depthwise convolutions and poolings beside each other, whose results lie in the image that they are joined to."""
    s = Spelling()
    rng = np.random.default_rng(18)
    first = rectified(s, rng, s.input(2, 3, 30, 31), (3, 64, 3))
    deep = rectified(s, rng, first, (64, 64, 3), group=64)
    mean = s.AveragePool(first, kernel_shape=[3, 3], pads=[1] * 4)
    inner = s.Concat(rectified(s, rng, deep, (64, 64, 1)), mean, axis=1)
    inner = rectified(s, rng, inner, (128, 128, 5), group=128)
    parts = [first, inner, s.MaxPool(deep, kernel_shape=[3, 3], pads=[1] * 4), rectified(s, rng, inner, (128, 128, 3))]
    joined = s.Concat(*parts, axis=1)
    y = s.Add(s.ReduceMean(rectified(s, rng, joined, (384, 32, 1))), s.ReduceMax(inner))
    (folder / "j.onnx").write_bytes(s.model(s.Add(y, s.ReduceMax(s.MaxPool(first, kernel_shape=[2, 2])))))
    wrong, schemes = judged(folder / "j.onnx", s.inputs, threads)
    if sum("_last" in scheme for scheme in schemes) != 6 or schemes.count("unpack") > 3:
        wrong.append(str(schemes))
    session = minnow.load(folder / "j.mnn", threads=threads, precision="low")
    seen: list[tuple[str, list, list]] = []
    session.run(s.inputs, after=lambda _name, op, x, y: seen.append((op, [a.copy() for a in x], [a.copy() for a in y])))
    made = {y[0].tobytes() for _, _, y in seen}
    for op, x, y in seen:
        if op == "Concat" and not np.array_equal(np.concatenate(x, 1), y[0]):
            wrong.append("an image is not what it was made of")
        reads = op in ("Conv", "MaxPool", "AveragePool", "Concat") and x[0].shape[1] > 3
        if reads and x[0].tobytes() not in made:
            wrong.append(f"{op} reads what no other node has made")
    # The result of the large Concat, and what its parts are made of; not its parts once more.
    image = 2 * 2 * 30 * 31 * 384
    if session.stats["arena_bytes"] > 1.9 * image:
        wrong.append(f"parts lie beside the image: {session.stats['arena_bytes']} bytes, the image has {image}")
    return [f"network of joined images: {what}" for what in wrong]


def network_of_wide_blocks(folder: Path, threads: int) -> list[str]:
    """Where images are wide inside of a block alone, depthwise convolutions stay with packed ones."""
    s = Spelling()
    rng = np.random.default_rng(19)
    wide = rectified(s, rng, s.input(1, 32, 9, 9), (32, 192, 1))
    narrow = rectified(s, rng, rectified(s, rng, wide, (192, 192, 3), group=192), (192, 32, 1))
    (folder / "b.onnx").write_bytes(s.model(narrow))
    wrong, schemes = judged(folder / "b.onnx", s.inputs, threads)
    return [f"network of wide blocks: {what}" for what in wrong + [x for x in schemes if x == "depthwise_last"]]
