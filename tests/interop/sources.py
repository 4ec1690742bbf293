"""The cases of the suites as folders: a model of its source format, what it is given and what has to come out.

The folder of a case has the model, `given.npz` and `expected.npz` (in the types of the source), `arguments.json` (for
MNN's converter) and `case.json`: its source, kind and tolerance.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ONNX_KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
LITE_KINDS = {"builtin", "lite", "half", "dynamic", "int8", "uint8", "int8_float", "int16"}
TOLERANCE = 1e-3
"""Relative to the largest number expected: MNN's kernels approximate some functions."""


def write(
    place: Path, source: str, kind: str, given: dict[str, Array], expected: dict[str, Array], **more: Any
) -> None:
    """The files beside the model of a case."""
    np.savez(place / "given.npz", **given)
    np.savez(place / "expected.npz", **expected)
    case = {"source": source, "kind": kind, "tolerance": TOLERANCE, "quanta": {}, "rows": False, **more}
    (place / "case.json").write_text(json.dumps(case))


def arguments(place: Path, framework: str, model: str, *more: str) -> None:
    """The command line of MNN's converter."""
    line = ["mnnconvert", "-f", framework, "--modelFile", model, "--MNNModel", "model.mnn", "--bizCode", "x", *more]
    (place / "arguments.json").write_text(json.dumps(line))


def onnx_cases(folder: Path) -> Iterator[Path]:
    """ONNX's own backend tests, all of whose values are arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx
        from onnx.backend.test import loader
        from onnx.backend.test.case.node import collect_testcases

        cases = {f"node/{c.name}": (c.model, c.data_sets[0]) for c in collect_testcases("")}
        for kind in ONNX_KINDS[1:]:
            for c in loader.load_model_tests(kind=kind):
                cases[f"{kind}/{c.name}"] = Path(c.model_dir), None
    for name, (model, data) in cases.items():
        if data is None:
            found = _recorded(model)
            model = onnx.load(model / "model.onnx")
        else:
            found = data
        inputs, outputs = found
        if not all(isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind in "fiub" for a in (*inputs, *outputs)):
            continue  # strings, sequences, optionals, complex numbers
        place = folder / "onnx" / name.replace("/", "__")
        place.mkdir(parents=True, exist_ok=True)
        onnx.save(model, place / "source.onnx")
        held = {t.name for t in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in held]
        given = {n: np.asarray(a) for n, a in zip(names, inputs, strict=False)}
        expected = {o.name: np.asarray(a) for o, a in zip(model.graph.output, outputs, strict=False)}
        write(place, "onnx", name.partition("/")[0], given, expected)
        arguments(place, "ONNX", "source.onnx")
        yield place


def _recorded(folder: Path) -> tuple[list[Any], list[Any]]:
    import onnx
    from onnx import numpy_helper

    def arrays(pattern: str) -> list[Any]:
        files = sorted((folder / "test_data_set_0").glob(pattern), key=lambda p: int(p.stem.rpartition("_")[2]))
        return [numpy_helper.to_array(onnx.load_tensor(f)) for f in files]

    try:
        return arrays("input_*.pb"), arrays("output_*.pb")
    except Exception:  # noqa: BLE001  (a sequence or an optional, which are no tensors)
        return [None], []


def tensorflow_cases(folder: Path, made: Path) -> Iterator[Path]:
    """TensorFlow's files and LiteRT's, as `tf_suite.generate` has made them, of one step."""
    for name, entry in json.loads((made / "manifest.json").read_text()).items():
        kind = name.rpartition(".")[2]
        if "not made" in entry or kind == "saved":
            continue
        arrays = np.load((made / entry["file"]).with_suffix(".npz"))
        if any(not n.startswith("0/") for n in arrays.files):
            continue  # several runs of a model with states
        given = {n.split("/", 2)[2]: arrays[n] for n in arrays.files if n.startswith("0/in/")}
        expected = {n.split("/", 2)[2]: arrays[n] for n in arrays.files if n.startswith("0/out/")}
        if any(a.dtype.kind not in "fiub" for a in (*given.values(), *expected.values())):
            continue
        source = "tflite" if kind in LITE_KINDS else "tf"
        place = folder / source / name
        place.mkdir(parents=True, exist_ok=True)
        model = "source.tflite" if source == "tflite" else "source.pb"
        shutil.copy(made / entry["file"], place / model)
        tolerance = max(entry["tolerance"], TOLERANCE)
        write(place, source, kind, given, expected, tolerance=tolerance, quanta=entry["quanta"])
        arguments(place, "TFLITE" if source == "tflite" else "TF", model)
        yield place


def caffe_cases(folder: Path, made: Path) -> Iterator[Path]:
    """Caffe's files, as `caffe_suite.generate` has made them."""
    for name, entry in json.loads((made / "manifest.json").read_text()).items():
        arrays = np.load((made / entry["file"]).with_suffix(".npz"))
        given = {n.removeprefix("in/"): arrays[n] for n in arrays.files if n.startswith("in/")}
        expected = {n.removeprefix("out/"): arrays[n] for n in arrays.files if n.startswith("out/")}
        place = folder / "caffe" / name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(made / entry["file"], place / "source.caffemodel")
        shutil.copy((made / entry["file"]).with_suffix(".prototxt"), place / "source.prototxt")
        write(place, "caffe", entry["family"], given, expected, rows=entry["rows"])
        arguments(place, "CAFFE", "source.caffemodel", "--prototxt", "source.prototxt")
        yield place
