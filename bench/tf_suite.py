"""Runs generated TensorFlow and TFLite models in Minnow or another runtime: what passes, is wrong, or crashes.

    PYTHON bench/tf_suite.py BACKEND [--folder FOLDER] [--json FILE] [--match REGEXP] [--list]

BACKEND is minnow, litert, mnn or openvino; PYTHON has it. `python -m tests.suites.tf_suite.generate FOLDER` makes
FOLDER; without it a Python that has TensorFlow makes the files, or finds those made before. Cases run in a process
apart, which they may end. One passes as in tests/suites/tf_suite: floats within 1e-4 of the largest expected one,
quantized outputs within one step, integers exactly.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "suites"))
from suite import Outcome, RefusedError, options, run
from tf_suite.generate import MANIFEST, cached
from tf_suite.judge import KIND_TOLERANCE, difference

GROUPS = {
    "tf": "TensorFlow graphs", "v1": "TensorFlow graphs, control flow lowered", "graph": "TensorFlow 1 graphs",
    "saved": "SavedModels", "builtin": "TFLite, float", "lite": "TFLite, float", "half": "TFLite, float16 weights",
    "dynamic": "TFLite, int8 weights", "int8": "TFLite, int8", "uint8": "TFLite, int8",
    "int8_float": "TFLite, int8", "int16": "TFLite, int16",
}  # fmt: skip

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], Arrays]


# ---- backends: a function from a file, and what it is given and has to give, to a function from inputs to outputs ----


def minnow(path: Path, given: Arrays, wanted: Arrays) -> Run:
    import minnow
    from minnow.errors import UnsupportedError

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "model.mnn")
        try:
            minnow.convert(path, output=target, verify=False)
            return minnow.load(target, threads=1).run
        except UnsupportedError as e:
            reasons = "; ".join(str(r.reason) for r in getattr(e, "refused", ())) or e.message
            raise RefusedError(reasons) from None


def litert(path: Path, given: Arrays, wanted: Arrays) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    if path.suffix != ".tflite":
        raise RefusedError("no TFLite file")
    interpreter = Interpreter(str(path), num_threads=1)  # with XNNPACK, as it comes
    for d in interpreter.get_input_details():
        interpreter.resize_tensor_input(d["index"], given[d["name"]].shape)
    interpreter.allocate_tensors()

    def run(inputs: Arrays) -> Arrays:
        for d in interpreter.get_input_details():
            interpreter.set_tensor(d["index"], inputs[d["name"]])
        interpreter.invoke()
        return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}

    return run


def openvino(path: Path, given: Arrays, wanted: Arrays) -> Run:
    import openvino as ov

    core = ov.Core()
    try:
        model = core.read_model(path)
        compiled = core.compile_model(model, "CPU")
    except RuntimeError as e:
        raise RefusedError(str(e).strip().splitlines()[-1]) from None
    request = compiled.create_infer_request()

    def run(inputs: Arrays) -> Arrays:
        results = request.infer(_named(compiled.inputs, inputs))
        found = {_key(port, wanted, i): results[port] for i, port in enumerate(compiled.outputs)}
        return {name: np.array(found[name]) for name in wanted if name in found}

    return run


def _named(ports: Any, arrays: Arrays) -> dict[Any, Any]:
    return {i: arrays[_key(port, arrays, i)] for i, port in enumerate(ports)}


def _key(port: Any, arrays: Arrays, number: int) -> str:
    """Which of some names is a port's; one that bears none of them counts by its place."""
    names = {n for full in port.get_names() for n in (full, full.removesuffix(":0"))}
    return next((n for n in arrays if n in names), list(arrays)[min(number, len(arrays) - 1)])


def mnn(path: Path, given: Arrays, wanted: Arrays) -> Run:
    import _tools  # the package around it contacts a server when it is imported
    import MNN.expr as expr
    import MNN.nn as nn

    codes = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}
    if path.is_dir():
        raise RefusedError("no SavedModels")
    target = Path(tempfile.mkdtemp(prefix="mnn-")) / "m.mnn"
    framework = "TFLITE" if path.suffix == ".tflite" else "TF"
    _tools.mnnconvert(["mnnconvert", "-f", framework, "--modelFile", str(path), "--MNNModel", str(target)])
    if not target.exists():
        raise RefusedError("no file was written")
    known = nn.load_module_from_file(str(target), [], []).get_info()
    # Its graphs end before TensorFlow's last Identity: the outputs count by their place.
    outputs = list(wanted) if set(wanted) <= set(known["outputNames"]) else known["outputNames"]
    names = [n for n in given if n in known["inputNames"]]
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    module = nn.load_module_from_file(str(target), names, outputs, runtime_manager=manager)

    def variable(array: Any) -> Any:
        # It has no 64-bit numbers, no doubles and no bools: what fits its own types is given in them.
        narrow = {"int64": np.int32, "float64": np.float32, "bool": np.int32, "float16": np.float32, "int16": np.int32}
        array = np.ascontiguousarray(array.astype(narrow.get(array.dtype.name, array.dtype)))
        if array.dtype == np.int8:  # which only a cast makes
            return expr.cast(expr.const(array.astype(np.int32), list(array.shape), expr.NHWC, expr.int), expr.int8)
        return expr.const(array, list(array.shape), expr.NHWC, codes[array.dtype.name])

    def run(inputs: Arrays) -> Arrays:
        results = module.forward([variable(inputs[name]) for name in names])
        results = results if isinstance(results, list) else [results]
        plain = [expr.convert(r, expr.NHWC) if r.data_format == expr.NC4HW4 else r for r in results]
        arrays = [np.array(r.read()).reshape(r.shape) for r in plain]
        if len(arrays) > len(wanted):  # it also returns unused outputs
            shapes = [w.shape for w in wanted.values()]
            arrays = [a for a in arrays if a.shape in shapes][: len(wanted)]
        return {n: a.astype(wanted[n].dtype) for n, a in zip(wanted, arrays, strict=True)}

    return run


BACKENDS = {f.__name__: f for f in (minnow, litert, openvino, mnn)}


# ---- cases ----------------------------------------------------------------------------------------------------------


def attempt(backend: str, path: Path, entry: Mapping[str, Any], kind: str) -> tuple[str, str]:
    """(outcome, what was said) of one case."""
    arrays = np.load(path.with_suffix(".npz"))
    steps: dict[str, dict[str, dict[str, Any]]] = {}
    for key in arrays.files:
        step, way, name = key.split("/", 2)
        steps.setdefault(step, {"in": {}, "out": {}})[way][name] = arrays[key]
    tolerance = max(entry["tolerance"], KIND_TOLERANCE.get(kind, 0.0))
    try:
        run = BACKENDS[backend](path, steps["0"]["in"], steps["0"]["out"])
        for step, both in steps.items():
            got = run(both["in"])
            for name, want in both["out"].items():
                if name not in got:
                    return "wrong", f"there is no output {name}, only {', '.join(got)}"
                if text := difference(np.asarray(got[name]), want, tolerance, entry["quanta"].get(name, 0.0)):
                    return "wrong", f"step {step}, {name}: {text}"
    except RefusedError as e:
        return "refused", str(e)[:300]
    except Exception as e:  # noqa: BLE001  (whatever a peer raises)
        return "error", f"{type(e).__name__}: {e}"[:300]
    return "pass", ""


def main() -> None:
    parser = options(__doc__, BACKENDS)
    parser.add_argument("--folder", type=Path, help="the generated models")
    asked = parser.parse_args()
    if asked.folder:
        folder, manifest = asked.folder.resolve(), json.loads((asked.folder / MANIFEST).read_text())
    else:
        folder, manifest = cached()
    names = [n for n, entry in manifest.items() if "not made" not in entry and re.search(asked.match, n)]
    kinds = [n.rpartition(".")[2] for n in names]

    def outcome(i: int) -> Outcome:
        entry = manifest[names[i]]
        return attempt(asked.backend, folder / entry["file"], entry, kinds[i])

    run(outcome, zip(names, map(GROUPS.__getitem__, kinds), strict=True), asked)


if __name__ == "__main__":
    sys.exit(main())
