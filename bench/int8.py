"""Quantization with calibration, beside those of onnxruntime and NNCF, on the same model and the same pictures.

    python bench/int8.py model.onnx PICTURES --preprocess mean=123.7,116.3,103.5:std=58.4,57.1,57.4
    python bench/int8.py faces.onnx PICTURES --preprocess mean=127:std=128 --boxes scores,boxes --nncf PYTHON

Of every picture in the folder crops are made (examples/quantize/photos.py). Those of every second picture calibrate;
with the others the outputs of the quantized models are compared with those of the float model: signal-to-noise ratio in
dB (SQNR, of several outputs the smallest), cosine, and how many crops have the same largest output, or with --boxes the
same faces (F1). onnxruntime computes these outputs with floats, as the quantized model says. Then the models of Minnow
and onnxruntime are timed in turns with one thread. PYTHON is one that has the packages nncf and openvino, best in an
environment of its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.options.calibration import Preprocess, parsed_preprocess

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "quantize"))
from photos import crops, divided, photos_in, same_boxes, same_class, sqnr  # noqa: E402

Array = np.ndarray[Any, Any]
Outputs = dict[str, Array]
METHODS = ("minmax", "percentile", "mse", "kl", "admm")
ROUNDS = 15


def compared(want: list[Outputs], got: list[Outputs], boxes: str) -> tuple[float, float, float]:
    """SQNR in dB, the smallest cosine of an output, and the share of equal largest outputs or of equal faces."""
    cosines = []
    for name in want[0]:
        x, y = (np.concatenate([o[name].reshape(-1) for o in all_]).astype(np.float64) for all_ in (want, got))
        cosines.append(float(x @ y / max(np.sqrt((x @ x) * (y @ y)), 1e-300)))
    same = same_boxes(want, got, *boxes.split(","))[0] if boxes else same_class(want, got)
    return sqnr(want, got), min(cosines), same


def with_newer_operators(source: Path, target: Path) -> Path:
    """A model whose operators can have a scale for each channel, and whose weights are no inputs."""
    import onnx

    model = onnx.load(source)
    weights = {w.name for w in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if model.opset_import[0].version < 13:
        model.ir_version = max(model.ir_version, 7)
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, target)
    return target


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
    quant_pre_process(
        with_newer_operators(source, target.with_suffix(".newer.onnx")), prepared, skip_symbolic_shape=True
    )
    q.quantize_static(
        prepared, target, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True,
        activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
        calibrate_method=getattr(q.CalibrationMethod, method),
    )  # fmt: skip


def onnx_runner(path: Path, name: str, optimized: bool = True) -> Callable[[Array], Outputs]:
    """Runs a model in onnxruntime; if it is not optimized, what the model says is computed with floats."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda x: dict(zip(names, session.run(None, {name: x}), strict=True))


def minnow_runner(path: Path) -> Callable[[Array], Outputs]:
    session = minnow.load(path, threads=1)
    (name,) = [i.name for i in session.inputs]
    return lambda x: {n: np.asarray(a) for n, a in session.run({name: x}).items()}


def of_nncf(given: argparse.Namespace, folder: Path, data: Path, names: list[str], mode: str) -> list[Outputs]:
    """The outputs of the model that NNCF makes, in OpenVINO; the process has no network where Linux allows that."""
    made = folder / "nncf.npz"
    alone = ["unshare", "--net", "--map-root-user"] if shutil.which("unshare") else []
    worker = [given.nncf, str(Path(__file__).with_name("nncf_worker.py"))]
    command = [*alone, *worker, str(given.model), str(data), str(made), *([mode] if mode else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=None if given.verbose else subprocess.DEVNULL)
    found = np.load(made)
    runs = len(found.files) // len(names)
    return [{n: found[f"{k}/{i}"] for i, n in enumerate(names)} for k in range(runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--preprocess", default="")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--peers", default="MinMax,Entropy,Percentile", help="methods of onnxruntime")
    parser.add_argument("--nncf", default="", metavar="PYTHON", help="a Python with nncf and openvino")
    parser.add_argument("--modes", default="fast,mixed,accurate", help="of NNCF")
    parser.add_argument("--boxes", default="", metavar="SCORES,BOXES", help="the outputs of a detector of faces")
    parser.add_argument("--only-accuracy", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="show what NNCF prints")
    given = parser.parse_args()
    how = parsed_preprocess(given.preprocess)
    with tempfile.TemporaryDirectory() as folder:
        measure(given, how, Path(folder))


def measure(given: argparse.Namespace, how: Preprocess, folder: Path) -> None:
    base = folder / "float.mnn"
    minnow.convert(given.model, output=base, target="minnow", verify=False)
    session = minnow.load(base)
    (info,) = session.inputs
    assert info.shape is not None
    names = [o.name for o in session.outputs]
    parts = divided(photos_in(given.pictures))
    calibration, test = ([c for p in part for c in crops(p, info.shape, how, info.dtype)] for part in parts)
    runners: dict[str, Callable[[Array], Outputs]] = {"Minnow, float": minnow_runner(base)}
    exact: dict[str, Callable[[Array], Outputs]] = {}
    if given.peers:
        runners["onnxruntime, float"] = onnx_runner(given.model, info.name)
    for method in filter(None, given.methods.split(",")):
        path = folder / f"{method}.mnn"
        minnow.quantize(
            given.model, output=path, target="minnow", verify=False, measure=False,
            calibration=[{info.name: x} for x in calibration], activation_method=method,
        )  # fmt: skip
        runners[f"Minnow, {method}"] = minnow_runner(path)
    for method in filter(None, given.peers.split(",")):
        path = folder / f"{method}.onnx"
        peer(given.model, path, info.name, calibration, method)
        runners[f"onnxruntime, {method}"] = onnx_runner(path, info.name)
        # Its integers saturate on processors without instructions for products of bytes: no matter of the model.
        exact[f"onnxruntime, {method}"] = onnx_runner(path, info.name, optimized=False)
    outputs = {name: [run(x) for x in test] for name, run in (runners | exact).items()}
    if given.nncf:
        data = folder / "inputs.npz"
        np.savez(data, **{f"c{k}": x for k, x in enumerate(calibration)}, **{f"t{k}": x for k, x in enumerate(test)})
        for mode in ("", *given.modes.split(",")):
            outputs[f"NNCF, {mode or 'float'}"] = of_nncf(given, folder, data, names, mode)
    rows = {name: compared(outputs["Minnow, float"], got, given.boxes) for name, got in outputs.items()}
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(0 if given.only_accuracy else ROUNDS):
        for name, run in runners.items():
            begin = time.perf_counter()
            run(test[0])
            times[name].append(time.perf_counter() - begin)
    print(f"{len(calibration)} crops to calibrate, {len(test)} to compare")
    print(
        f"| model | SQNR dB | cosine | {'F1 of faces' if given.boxes else 'same top-1'} | ms |\n|---|---|---|---|---|"
    )
    for name, (decibels, cosine, same) in rows.items():
        ms = f"{1e3 * float(np.median(times[name])):.1f}" if times[name] else ""
        print(f"| {name} | {decibels:.1f} | {cosine:.5f} | {same:.0%} | {ms} |")


if __name__ == "__main__":
    main()
