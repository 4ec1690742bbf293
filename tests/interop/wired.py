"""Files of single ops that MNN's runtime has and its converter seldom writes: python -m interop.wired RELEASE

Each function below makes a net, table by table. MNN runs it, and the file goes to `files/RELEASE/` with its inputs and
what MNN gave; nothing is kept where Minnow's engine gives something else. MINNOW_MNN_PYTHON names a Python that has
MNN.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from oracles import mnn_oracle
from wire_net import Net

import minnow

from .judge import difference
from .keep import FILES

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-3
CODES = {"f": "DT_FLOAT", "i": "DT_INT32", "u": "DT_UINT8"}


class Case:
    """A net with one op, and what it is given; `kept` operands are constants, `packed` ones in packs of channels."""

    def __init__(self, source: str = "ONNX", format: str = "NCHW") -> None:
        self.net = Net(source)
        self.format = format
        self.feeds: dict[str, Array] = {}
        self.outputs: list[str] = []

    def op(
        self,
        type: str,
        table: str,
        main: dict[str, Any],
        *arrays: Array,
        n: int = 1,
        kept: tuple[int, ...] = (),
        packed: tuple[int, ...] = (),
    ) -> Case:
        names = []
        for i, a in enumerate(arrays):
            if i in kept:
                names.append(self.net.const(f"c{i}", a, self.format))
                continue
            name = self.net.input(f"x{i}", a.shape, CODES[a.dtype.kind], self.format)
            self.feeds[name] = a
            if i in packed:
                layout = {"source": self.format, "dest": "NC4HW4"}
                name = self.net.op("ConvertTensor", [name], [f"p{i}"], "TensorConvertInfo", layout)[0]
            names.append(name)
        self.outputs = [f"y{i}" for i in range(n)]
        self.net.op(type, names, self.outputs, table, main)
        return self


CASES: dict[str, Callable[[np.random.Generator], Case]] = {}


def case(make: Callable[[np.random.Generator], Case]) -> Callable[[np.random.Generator], Case]:
    CASES[make.__name__] = make
    return make


def f(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def _volume(rng: np.random.Generator, type: str, shape: tuple[int, ...], **common: Any) -> Case:
    sizes = {"dilates": [1, 1, 1], "strides": [1, 1, 1], "kernels": [2, 3, 3], "pads": [0, 1, 1]}
    common = {**sizes, "inputCount": 3, "outputCount": 4, **common}
    main = {"common": common, "weight": f(rng, *shape).ravel(), "bias": f(rng, 4)}
    return Case().op(type, "Convolution3D", main, f(rng, 1, 3, 4, 5, 6), packed=(0,))


@case
def conv3d(rng):
    return _volume(rng, "Convolution3D", (4, 3, 2, 3, 3))


@case
def conv3d_strides(rng):
    more = {"dilates": [1, 2, 1], "strides": [1, 1, 2], "pads": [0, 1, 1, 0, 1, 1], "relu": True}
    return _volume(rng, "Convolution3D", (4, 3, 2, 3, 3), **more)


@case
def conv_transpose3d(rng):
    return _volume(rng, "ConvTranspose3D", (3, 4, 2, 3, 3), strides=[2, 1, 1], pads=[0, 1, 1, 0, 1, 1])


@case
def interp3d(rng):
    main = {"resizeType": 1, "depthScale": 0.5, "heightScale": 0.5, "widthScale": 0.5}
    main |= {"outputDepth": 8, "outputHeight": 10, "outputWidth": 12}
    return Case().op("Interp3D", "Interp", main, f(rng, 1, 3, 4, 5, 6), packed=(0,))


@case
def resize(rng):
    return Case("CAFFE").op("Resize", "Resize", {"xScale": 2.0, "yScale": 3.0}, f(rng, 1, 3, 4, 5), packed=(0,))


@case
def dilation2d(rng):
    common = {"kernelX": 2, "kernelY": 3, "inputCount": 3, "outputCount": 3, "padMode": "VALID"}
    main = {"common": common, "weight": f(rng, 3, 3, 2).ravel()}
    return Case().op("Dilation2D", "Convolution2D", main, f(rng, 1, 3, 6, 5), packed=(0,))


@case
def unique_of_tensorflow(rng):
    return Case("TENSORFLOW", "NHWC").op("Unique", "", {}, np.array([1, 1, 3, 4, 3], np.int32), n=2)


@case
def segment_mean(rng):
    numbers = np.array([0, 0, 1, 2, 2], np.int32)
    main = {"operation": "MEAN"}
    return Case("TENSORFLOW", "NHWC").op("Segment", "ReductionParam", main, f(rng, 5, 3), numbers)


def _detection(rng: np.random.Generator, count: int, **more: Any) -> Case:
    classes = 3
    corners = np.sort(rng.random((count, 2, 2)), 1).reshape(count, 4)
    prior = np.stack([corners.ravel(), np.tile([0.1, 0.1, 0.2, 0.2], count)])[None].astype(np.float32)
    scores = rng.permutation(count * classes).astype(np.float32) / (count * classes)
    main = {"classCount": classes, "nmsThresholdold": 0.45, "nmsTopK": 400, "keepTopK": 200, "shareLocation": 1}
    main |= {"confidenceThreshold": 0.05, "codeType": 2, **more}
    arrays = (f(rng, 1, 4 * count) * 0.3, scores[None], prior)
    return Case("CAFFE").op("DetectionOutput", "DetectionOutput", main, *arrays, packed=(0, 1, 2))


@case
def detection_output(rng):
    return _detection(rng, 12)


@case
def detection_output_kept(rng):
    return _detection(rng, 30, keepTopK=5)


def _attention(rng: np.random.Generator, masked: bool, **main: Any) -> Case:
    arrays = [f(rng, 1, 5, 4, 8), f(rng, 1, 5, 2, 8), f(rng, 1, 5, 2, 8)]
    if masked:
        arrays.append(f(rng, 1, 1, 5, 5))
    return Case().op("Attention", "AttentionParam", {"kv_cache": False, **main}, *arrays)


@case
def attention(rng):
    return _attention(rng, True)


@case
def attention_causal(rng):
    return _attention(rng, False, kv_cache=True)


@case
def attention_packed(rng):
    return _attention(rng, True, output_c4=True)


def _rope(rng: np.random.Generator, size: int, **more: Any) -> Case:
    main = {"rope_cut_head_dim": size, "num_head": 4, "kv_num_head": 2, "head_dim": 8, **more}
    arrays = (f(rng, 5, 32, 1, 1), f(rng, 5, 16, 1, 1), f(rng, 1, 5, 1, size), f(rng, 1, 5, 1, size))
    return Case().op("RoPE", "RoPEParam", main, *arrays, n=2, packed=(0, 1))


@case
def rope(rng):
    return _rope(rng, 8)


@case
def rope_of_a_part(rng):
    return _rope(rng, 4)


@case
def rope_normalized(rng):
    norms = {k: {"gamma": f(rng, 8), "epsilon": 1e-5, "useRMSNorm": True, "axis": [-1]} for k in ("q_norm", "k_norm")}
    return _rope(rng, 8, **norms)


BYTES = {"zeroPoint": 3, "scale": 0.1}


def _bytes(rng: np.random.Generator) -> Array:
    return rng.integers(0, 256, (1, 2, 3, 4)).astype(np.uint8)


@case
def dequantize(rng):
    main = {"inputQuantizedParam": BYTES, "modelFormat": "TFLITE", "type": "DT_QUINT8"}
    return Case("TFLITE", "NHWC").op("Dequantize", "Dequantize", main, _bytes(rng))


@case
def dequantize_by_range(rng):
    main = {"inputQuantizedParam": BYTES, "modelFormat": "TENSORFLOW", "type": "DT_QUINT8"}
    ends = np.float32(-2)[None], np.float32(3)[None]
    return Case("TENSORFLOW", "NHWC").op("Dequantize", "Dequantize", main, _bytes(rng), *ends, kept=(1, 2))


@case
def quantized_concat(rng):
    main = {"axis": 3, "inputScale": [0.1, 0.1], "inputZeroPoint": [3, 3], "outputQuantizedParam": BYTES}
    return Case("TFLITE", "NHWC").op("QuantizedConcat", "QuantizedConcat", main, _bytes(rng), _bytes(rng))


@case
def quantized_reshape(rng):
    main = {"dims": [2, 12], "modelFormat": "TFLITE"}
    return Case("TFLITE", "NHWC").op("QuantizedReshape", "QuantizedReshape", main, _bytes(rng))


def record(target: Path, match: str) -> list[str]:
    """Keeps the files whose numbers are the same in both runtimes; gives what is wrong with the others."""
    rng = np.random.default_rng(0)
    made = {name: make(rng) for name, make in CASES.items()}
    made = {name: c for name, c in made.items() if re.search(match, name)}
    jobs = [mnn_oracle.File(c.net.bytes(*c.outputs), c.feeds, c.outputs) for c in made.values()]
    with tempfile.TemporaryDirectory() as folder:
        answers = mnn_oracle.run(jobs, Path(folder) / "jobs")
    said = []
    for (name, c), job, answer in zip(made.items(), jobs, answers, strict=True):
        if not answer.outputs:
            said.append(f"{name}: MNN does not run it: {answer.log[-100:]}")
            continue
        want = dict(zip(c.outputs, answer.outputs, strict=True))
        got = minnow.load(job.data, threads=1).run(c.feeds)
        wrong = [f"{o}: {t}" for o in c.outputs if (t := difference(got[o], want[o], TOLERANCE))]
        wrong += [f"{o}: shape {got[o].shape}, not {want[o].shape}" for o in c.outputs if got[o].shape != want[o].shape]
        if wrong:
            said.append(f"{name}: {'; '.join(wrong)}")
            continue
        (target / f"wired_{name}.mnn").write_bytes(job.data)
        arrays = {f"in/{n}": a for n, a in c.feeds.items()} | {f"out/{n}": a for n, a in want.items()}
        np.savez_compressed(target / f"wired_{name}.npz", **arrays)
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    said = record(FILES / options.release, options.match)
    sys.stdout.write("".join(f"{line}\n" for line in said) or "all are the same\n")


if __name__ == "__main__":
    main()
