"""Times TFLite files of one quantized operator each in Minnow and in LiteRT, in turns, and prints the ratios, the worst
first.

    ./dev bench tflite-ops [PATTERN] [--threads 1] [--rounds 7]

Numbers are processor time at one thread and wall time at more; below 1 Minnow is faster. Both copy from arrays and to
arrays. `apart` is the largest difference in quantization steps: LiteRT's delegate rounds otherwise than its reference
kernels.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ops import measure

import minnow

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "converter" / "tflite"))
from tflite_one import Tensor, constant, file_of, random_quanta

rng = np.random.default_rng(0)
IMAGE, SMALL, ROWS = (1, 56, 56, 64), (1, 14, 14, 512), (1, 128, 768)
TYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16}

Case = tuple[str, str, list[Tensor | None], list[Tensor], str, dict[str, Any]]


def quanta(shape: Any, dtype: Any, scale: float, zero: int = 0) -> Tensor:
    wide = dtype is np.int16
    return Tensor(shape, dtype, scale / 256 if wide else scale, 0 if wide else zero + 128 * (dtype is np.uint8))


def weights(shape: Any, dtype: Any, axis: int) -> Tensor:
    if dtype is np.uint8:
        return constant(rng.integers(0, 256, shape).astype(np.uint8), 0.02, 120)
    return constant(rng.integers(-127, 128, shape).astype(np.int8), [0.02] * shape[axis], 0, axis)


def bias(n: int, x: Tensor, w: Tensor) -> Tensor:
    scales = list(np.float32(x.scale) * np.atleast_1d(np.asarray(w.scale, np.float32)))
    return constant(rng.integers(-999, 999, n).astype(np.int64 if x.dtype is np.int16 else np.int32), scales)


def cases(dtype: Any) -> Iterator[Case]:
    none = {"fused_activation_function": 0}
    for op, kind in ("ADD", "AddOptions"), ("MUL", "MulOptions"):
        for shape, other in (IMAGE, IMAGE), (IMAGE, (1, 1, 1, 64)), (SMALL, SMALL), (SMALL, (1, 1, 1, 512)), (ROWS, ()):
            # No round ratios: with those, many sums lie in the middle between two integers.
            x, y = quanta(shape, dtype, 0.0513, 3), quanta(other, dtype, 0.0971, -21)
            yield (
                op,
                f"{shape} {other}",
                [x, y],
                [quanta(shape, dtype, 0.2113 if op == "ADD" else 0.4177, 5)],
                kind,
                none,
            )
    for shape in (1, 12, 128, 128), (1, 1001), (1, 64, 64, 21):
        top = quanta(shape, dtype, 1 / 128 if dtype is np.int16 else 1 / 256, -128)
        yield "SOFTMAX", f"{shape}", [quanta(shape, dtype, 0.1)], [top], "SoftmaxOptions", {"beta": 1.0}
    for op, kind in ("MEAN", "ReducerOptions"), ("SUM", "ReducerOptions"), ("REDUCE_MAX", "ReducerOptions"):
        for shape, axes in ((1, 7, 7, 1280), (1, 2)), (IMAGE, (1, 2)), (ROWS, (2,)), (IMAGE, (3,)):
            out = np.zeros(shape).sum(axes, keepdims=True).shape
            y = quanta(out, dtype, 0.05 if op == "REDUCE_MAX" else 0.03 if op == "MEAN" else 5, 3)
            operands = [quanta(shape, dtype, 0.05, 3), constant(np.array(axes, np.int32))]
            yield op, f"{shape} {axes}", operands, [y], kind, {"keep_dims": True}
    for op in "MAX_POOL_2D", "AVERAGE_POOL_2D":
        for k, s, padding in (2, 2, 1), (3, 2, 0), (3, 1, 0):
            options = {"padding": padding, "stride_h": s, "stride_w": s, "filter_height": k, "filter_width": k, **none}
            x, y = quanta(IMAGE, dtype, 0.05, 3), quanta((1, 56 // s, 56 // s, 64), dtype, 0.05, 3)
            yield op, f"{IMAGE} {k}x{k} by {s}", [x], [y], "Pool2DOptions", options
    for shape, size in ((1, 28, 28, 64), (56, 56)), ((1, 12, 12, 96), (24, 24)), ((1, 65, 65, 21), (257, 257)):
        for op, kind in (("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                         ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")):  # fmt: skip
            for way in {}, {"half_pixel_centers": True}, {"align_corners": True}:
                operands = [quanta(shape, dtype, 0.05, 3), constant(np.array(size, np.int32))]
                out = quanta((1, *size, shape[-1]), dtype, 0.05, 3)
                yield op, f"{shape} {size} {' '.join(way)}", operands, [out], kind, way
    for shape, n, k in ((1, 14, 14, 128), 64, 2), ((1, 28, 28, 64), 32, 3), ((1, 16, 16, 64), 64, 4):
        x, w, size = quanta(shape, dtype, 0.05, 3), weights((n, k, k, shape[-1]), dtype, 0), [2 * s for s in shape[1:3]]
        operands = [constant(np.array([1, *size, n], np.int32)), w, x, bias(n, x, w)]
        options = {"stride_h": 2, "stride_w": 2, "padding": 0}
        yield "TRANSPOSE_CONV", f"{shape} {n} {k}x{k}", operands, [quanta((1, *size, n), dtype, 0.9)], (
            "TransposeConvOptions"), options  # fmt: skip
    for shape, n, k in (IMAGE, 64, 3), (IMAGE, 256, 1), ((1, 224, 224, 3), 32, 3):
        s = 2 if shape[-1] == 3 else 1
        x, w = quanta(shape, dtype, 0.05, 3), weights((n, k, k, shape[-1]), dtype, 0)
        y = quanta((1, shape[1] // s, shape[2] // s, n), dtype, 0.9)
        options = {"stride_h": s, "stride_w": s, "padding": 0}
        yield "CONV_2D", f"{shape} {n} {k}x{k}", [x, w, bias(n, x, w)], [y], "Conv2DOptions", options
    x, w = quanta(IMAGE, dtype, 0.05, 3), weights((1, 3, 3, 64), dtype, 3)
    options = {"stride_h": 1, "stride_w": 1, "padding": 0, "depth_multiplier": 1}
    yield "DEPTHWISE_CONV_2D", f"{IMAGE} 3x3", [x, w, bias(64, x, w)], [quanta(IMAGE, dtype, 0.9)], (
        "DepthwiseConv2DOptions"), options  # fmt: skip
    for m, k, n in (1, 1280, 1001), (128, 768, 768):
        x, w = quanta((m, k), dtype, 0.05, 3), weights((n, k), dtype, 0)
        y = quanta((m, n), dtype, 2)
        yield "FULLY_CONNECTED", f"{m}x{k}x{n}", [x, w, bias(n, x, w)], [y], "FullyConnectedOptions", {}
    for op, kind in ("LOGISTIC", ""), ("TANH", ""), ("HARD_SWISH", "HardSwishOptions"), ("RELU6", ""):
        if dtype is np.int16 and op == "HARD_SWISH":
            continue
        scale = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}.get(op, 0.05)
        zero = {"LOGISTIC": -128, "TANH": 0}.get(op, 3)
        scale = 1 / 128 if dtype is np.int16 and op == "LOGISTIC" else scale
        yield op, f"{IMAGE}", [quanta(IMAGE, dtype, 0.03, 3)], [quanta(IMAGE, dtype, scale, zero)], kind, {}
    x = quanta(IMAGE, dtype, 0.05, 3)
    yield "QUANTIZE", "of floats", [Tensor(IMAGE)], [x], "QuantizeOptions", {}
    yield "QUANTIZE", "again", [x], [quanta(IMAGE, dtype, 0.07, -5)], "QuantizeOptions", {}
    yield "DEQUANTIZE", "", [x], [Tensor(IMAGE)], "DequantizeOptions", {}
    joined = quanta((1, 56, 56, 128), dtype, 0.05, 3)
    yield "CONCATENATION", f"{IMAGE}", [x, x], [joined], "ConcatenationOptions", {"axis": 3}
    pads = constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    yield "PAD", f"{IMAGE}", [x, pads], [quanta((1, 58, 58, 64), dtype, 0.05, 3)], "PadOptions", {}
    turn = constant(np.array([0, 3, 1, 2], np.int32))
    yield "TRANSPOSE", f"{IMAGE}", [x, turn], [quanta((1, 64, 56, 56), dtype, 0.05, 3)], "TransposeOptions", {}


@click.command()
@click.argument("pattern", default="")
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=7, show_default=True)
def main(pattern: str, threads: int, rounds: int) -> None:
    clock = time.process_time if threads == 1 else time.perf_counter
    wanted, lines = re.compile(pattern), []
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in TYPES.items():
            for op, text, operands, results, kind, options in cases(dtype):
                label = f"{op} {name} {text}"
                if not wanted.search(label):
                    continue
                try:
                    source, target = Path(folder) / "one.tflite", Path(folder) / "one.mnn"
                    source.write_bytes(file_of(op, operands, results, options, kind))
                    minnow.convert(source, output=target, verify=False)
                    ours, theirs = minnow.load(target, threads=threads), Interpreter(str(source), num_threads=threads)
                    theirs.allocate_tensors()
                    places = theirs.get_input_details()
                    result = theirs.get_output_details()[0]["index"]
                    arrays = [random_quanta(rng, t) for t in operands if t is not None and t.data is None]
                    feed = dict(zip([i.name for i in ours.inputs], arrays, strict=True))

                    def run() -> Any:
                        for place, array in zip(places, arrays, strict=True):  # noqa: B023
                            theirs.set_tensor(place["index"], array)  # noqa: B023
                        theirs.invoke()  # noqa: B023
                        return theirs.get_tensor(result)  # noqa: B023

                    (got,), want = ours.run(feed).values(), run()
                    apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
                    a, b = measure(lambda: ours.run(feed), run, clock, rounds)  # noqa: B023
                except Exception as failure:  # noqa: BLE001  (a table of all the others is worth more than a trace)
                    print(f"      {label}: {str(failure).partition(chr(10))[0][:150]}", flush=True)
                    continue
                lines.append((a / b, f"{a / b:6.2f} {a * 1e6:10.1f} {b * 1e6:10.1f} us  apart {apart:g}  {label}"))
    print(*[line for _, line in sorted(lines, reverse=True)], sep="\n")


if __name__ == "__main__":
    main()
