"""Quantization with calibration, beside that of onnxruntime, on the same model and the same pictures.

    python bench/int8.py model.onnx PICTURES --preprocess mean=123.7,116.3,103.5:std=58.4,57.1,57.4

Of every picture in the folder crops are made. Those of every second picture calibrate; with the others the outputs of
the quantized models are compared with those of the float model: signal-to-noise ratio in dB (SQNR), cosine, and how
many crops have the same largest output. Then all models are timed in turns with one thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.options.calibration import Preprocess, parsed_preprocess

Array = np.ndarray[Any, Any]
METHODS = ("minmax", "percentile", "mse", "kl", "admm")
ROUNDS = 15


def crops(path: Path, height: int, width: int, how: Preprocess) -> Iterator[Array]:
    """Parts of a picture as inputs [1, 3, height, width]: the whole, five crops, and all of them mirrored."""
    import cv2

    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert picture is not None, path
    if how.order == "rgb":
        picture = picture[..., ::-1]
    h, w = picture.shape[:2]
    side = int(0.8 * min(h, w))
    corners = [(0, 0), (0, w - side), (h - side, 0), (h - side, w - side), ((h - side) // 2, (w - side) // 2)]
    for part in (picture, *(picture[y : y + side, x : x + side] for y, x in corners)):
        small = cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32)
        numbers = ((small - np.array(how.mean)) / np.array(how.std)).astype(np.float32)
        one = np.ascontiguousarray(numbers.transpose(2, 0, 1)[None])
        yield one
        yield np.ascontiguousarray(one[..., ::-1])


def compared(want: list[Array], got: list[Array]) -> tuple[float, float, float]:
    """SQNR in dB, cosine, and share of equal largest outputs."""
    x, y = (np.concatenate([a.reshape(1, -1) for a in arrays]).astype(np.float64) for arrays in (want, got))
    sqnr = 10 * np.log10(np.square(x).sum() / max(np.square(x - y).sum(), 1e-300))
    cosine = (x * y).sum() / np.sqrt(np.square(x).sum() * np.square(y).sum())
    return float(sqnr), float(cosine), float((x.argmax(1) == y.argmax(1)).mean())


def peer(source: Path, target: Path, name: str, data: list[Array], method: str) -> None:
    """What onnxruntime makes of the model: weights for each channel, and activations of u8."""
    import onnxruntime.quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.rows = iter(data)

        def get_next(self) -> dict[str, Array] | None:
            row = next(self.rows, None)
            return None if row is None else {name: row}

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    q.quantize_static(
        prepared, target, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True,
        activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
        calibrate_method=getattr(q.CalibrationMethod, method),
    )  # fmt: skip


def onnx_runner(path: Path, name: str) -> Callable[[Array], Array]:
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(None, {name: x})[0])


def minnow_runner(path: Path) -> Callable[[Array], Array]:
    session = minnow.load(path, threads=1)
    (name,) = [i.name for i in session.inputs]
    return lambda x: next(iter(session.run({name: x}).values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--preprocess", default="")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--peers", default="MinMax,Entropy,Percentile")
    parser.add_argument("--only-accuracy", action="store_true")
    given = parser.parse_args()
    how = parsed_preprocess(given.preprocess)
    with tempfile.TemporaryDirectory() as folder:
        measure(given, how, Path(folder))


def measure(given: argparse.Namespace, how: Preprocess, folder: Path) -> None:
    base = folder / "float.mnn"
    minnow.convert(given.model, output=base, target="minnow", verify=False)
    (info,) = minnow.load(base).inputs
    assert info.shape is not None
    height, width = (int(d) for d in info.shape[2:])
    pictures = sorted(p for p in given.pictures.iterdir() if p.suffix in (".jpg", ".png"))
    calibration, test = ([c for p in pictures[k::2] for c in crops(p, height, width, how)] for k in (0, 1))
    runners: dict[str, Callable[[Array], Array]] = {"Minnow, float": minnow_runner(base)}
    if given.peers:
        runners["onnxruntime, float"] = onnx_runner(given.model, info.name)
    for method in given.methods.split(","):
        path = folder / f"{method}.mnn"
        minnow.quantize(
            given.model, output=path, target="minnow", verify=False, measure=False, calibration=calibration,
            activation_method=method,
        )  # fmt: skip
        runners[f"Minnow, {method}"] = minnow_runner(path)
    for method in filter(None, given.peers.split(",")):
        path = folder / f"{method}.onnx"
        peer(given.model, path, info.name, calibration, method)
        runners[f"onnxruntime, {method}"] = onnx_runner(path, info.name)
    want = [runners["Minnow, float"](x) for x in test]
    rows = {name: compared(want, [run(x) for x in test]) for name, run in runners.items()}
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(0 if given.only_accuracy else ROUNDS):
        for name, run in runners.items():
            begin = time.perf_counter()
            run(test[0])
            times[name].append(time.perf_counter() - begin)
    print(f"{len(calibration)} crops to calibrate, {len(test)} to compare")
    print("| model | SQNR dB | cosine | same top-1 | ms |\n|---|---|---|---|---|")
    for name, (sqnr, cosine, same) in rows.items():
        ms = f"{1e3 * float(np.median(times[name])):.1f}" if times[name] else ""
        print(f"| {name} | {sqnr:.1f} | {cosine:.5f} | {same:.0%} | {ms} |")


if __name__ == "__main__":
    main()
