"""Makes the corpus: python -m interop.build FOLDER --tf FILES --caffe FILES [--match REGEXP]

Each case of the suites becomes a folder `cases/SOURCE/NAME` with `model.mnn`, which MNN's converter wrote;
`inputs.npz`, in the types of that file; `expected.npz`, what the source computes, by the names of the file's outputs;
and `mnn.npz`, what MNN gives. `cases.jsonl` says of each case whether MNN converts it, runs it, and gives what is
expected.
MINNOW_MNN_PYTHON names a Python that has MNN; its converter runs without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError
from minnow.schema.mnn.wire import read

from . import jobs
from .judge import wrong
from .sources import caffe_cases, onnx_cases, tensorflow_cases

PYTHON = os.environ.get("MINNOW_MNN_PYTHON", "")
CHUNK = 200
HERE = Path(__file__).parent
Array = np.ndarray[Any, Any]

TYPES = {"DT_UINT8": np.uint8, "DT_QUINT8": np.uint8, "DT_INT8": np.int8, "DT_QINT8": np.int8}
TYPES |= dict.fromkeys(("DT_FLOAT", "DT_DOUBLE", "DT_HALF", "DT_BFLOAT16"), np.float32)
"""Of inputs, by what the file says; all others are int32."""


def convert(places: list[Path]) -> dict[Path, str]:
    """Lets MNN convert the models of all folders; what ended its process, by folder."""
    return jobs.run(["unshare", "-rn", PYTHON, str(HERE / "mnn_writes.py")], places)


def prepare(place: Path) -> str:
    """Writes the inputs as the file takes them, and what is expected by its names; gives why that cannot be done."""
    file = place / "model.mnn"
    if not file.exists():
        return "not converted"
    case = json.loads((place / "case.json").read_text())
    try:
        net = read(file.read_bytes())
    except FormatError as e:
        return f"not a file: {e}"
    if "tensorName" not in net:
        return "a file without tensors"
    names = net["tensorName"]
    given, expected = dict(np.load(place / "given.npz")), dict(np.load(place / "expected.npz"))
    inputs, packed = {}, []
    for op in net["oplists"]:
        if op.get("type") != "Input":
            continue
        name = names[op["outputIndexes"][0]]
        source = next((n for n in given if n == name or n.partition(":")[0] == name.partition(":")[0]), None)
        if source is None:
            return f"an input {name} that the source lacks"
        main = op.get("main", {})
        inputs[name] = _typed(given[source], TYPES.get(main.get("dtype", "DT_FLOAT"), np.int32))
        if main.get("dformat") == "NC4HW4" and inputs[name].ndim > 1:
            packed.append(name)
    outputs = net.get("outputName") or _unread(net)
    if not set(expected) <= set(outputs):
        if len(outputs) != len(expected):
            return f"outputs {outputs}, expected {list(expected)}"
        expected = dict(zip(outputs, expected.values(), strict=True))
        case["quanta"] = dict(zip(outputs, case["quanta"].values(), strict=False))
        (place / "case.json").write_text(json.dumps(case))
    if any(op.get("type") == "DetectionOutput" for op in net["oplists"]):
        expected = {n: _one_image(a) for n, a in expected.items()}
    np.savez(place / "inputs.npz", **inputs)
    np.savez(place / "expected.npz", **expected)
    layout = "NHWC" if case["source"] in ("tf", "tflite") else "NCHW"
    (place / "run.json").write_text(json.dumps({"outputs": list(expected), "layout": layout, "packed": packed}))
    return ""


def _one_image(rows: Array) -> Array:
    """Of rows (image, label, score, corners) what MNN gives: without the image, and without rows that only fill up."""
    if rows.shape[-1] != 7 or np.any(rows[..., 0] != 0):
        return rows
    found = rows.reshape(-1, 7)
    return found[np.any(found != 0, axis=1)][:, 1:][None, None]


def _unread(net: dict[str, Any]) -> list[str]:
    """The tensors that no op reads, which are the outputs of a file that names none."""
    read_by = {i for op in net["oplists"] for i in op.get("inputIndexes", ())}
    made = [i for op in net["oplists"] if op.get("type") != "Input" for i in op.get("outputIndexes", ())]
    return [net["tensorName"][i] for i in made if i not in read_by]


def _typed(array: Array, dtype: Any) -> Array:
    if array.dtype.kind in "iu" and dtype == np.int32:
        array = np.clip(array, -(2**31), 2**31 - 1)
    return array.astype(dtype)


def judged(place: Path) -> str:
    """What is wrong with MNN's outputs of a case, "" for nothing."""
    if not (place / "mnn.npz").exists():
        log = place / "run.log"
        return f"does not run: {log.read_text() if log.exists() else ''}"
    want = dict(np.load(place / "expected.npz"))
    results = np.load(place / "mnn.npz")
    case = json.loads((place / "case.json").read_text())
    if case.get("by_mnn") and len(results.files) == len(want):
        want = {name: results[f"arr_{i}"] for i, name in enumerate(want)}
        if not all(np.all(np.isfinite(a)) for a in want.values()):
            return "not finite"
        np.savez(place / "expected.npz", **want)
    got = dict(zip(want, (results[f"arr_{i}"] for i in range(len(results.files))), strict=False))
    return wrong(got, want, case)


def finish(places: list[Path]) -> list[dict[str, Any]]:
    """Converts, runs and judges the cases; an entry for each."""
    ended = convert(places)
    said = {p: prepare(p) for p in places}
    ready = [p for p in places if not said[p]]
    crashed = jobs.run([PYTHON, str(HERE / "mnn_runs.py")], ready) if ready else {}
    entries = []
    for place in places:
        case = json.loads((place / "case.json").read_text())
        entry = {"case": f"{place.parent.name}/{place.name}", "source": case["source"], "kind": case["kind"]}
        why = ended.get(place) or said[place] or crashed.get(place) or judged(place)
        stage = "convert" if place in ended or said[place] else "run" if why else ""
        entries.append(entry | {"mnn": stage or "right", "why": why[:300]})
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tf", type=Path)
    parser.add_argument("--caffe", type=Path)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("--resume", action="store_true", help="only cases that cases.jsonl lacks")
    parser.add_argument("--again", default="", help="with --resume: also cases of which was said what matches this")
    options = parser.parse_args()
    folder = options.folder.absolute() / "cases"
    places = list(onnx_cases(folder)) if options.onnx else []
    places += tensorflow_cases(folder, options.tf) if options.tf else []
    places += caffe_cases(folder, options.caffe) if options.caffe else []
    written = set(places)
    places = [p for p in places if re.search(options.match, f"{p.parent.name}/{p.name}")]
    journal = options.folder / "cases.jsonl"
    known = {}
    if journal.exists():
        known = {e["case"]: e for e in map(json.loads, journal.read_text().splitlines())}
    if options.resume:
        left = {n for n, e in known.items() if not (options.again and re.search(options.again, e["why"]))}
        places = [p for p in places if f"{p.parent.name}/{p.name}" not in left]
    for place in sorted(written.difference(places)):
        prepare(place)  # its expected outputs were just written anew, by the names of the source
    for begin in range(0, len(places), CHUNK):
        known |= {e["case"]: e for e in finish(places[begin : begin + CHUNK])}
        journal.write_text("".join(json.dumps(e) + "\n" for e in known.values()))
    right = sum(e["mnn"] == "right" for e in known.values())
    sys.stdout.write(f"{len(known)} cases, MNN gives what is expected for {right}\n")


if __name__ == "__main__":
    main()
