"""Runs small Caffe nets in Minnow or another runtime: what passes, is wrong, is unsupported, or crashes.

    PYTHON bench/caffe_suite.py BACKEND FOLDER [--json FILE] [--match REGEXP] [--list]

BACKEND is minnow, opencv or mnn; PYTHON has to have it. `python -m tests.suites.caffe_suite.generate FOLDER` has made
FOLDER. Cases run in a process apart, which they may end. One passes as in tests/suites/caffe_suite: every output within
1e-4 of the largest number expected; detections may come in any order. Integers count as floats, and
dimensions of 1 do not count.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "suites"))
from caffe_suite.judge import arranged
from suite import Outcome, RefusedError, options, run
from tf_suite.judge import difference

Arrays = Mapping[str, Any]


# ---- backends: from a file, its inputs and what is expected to outputs ----------------------------------------------


def minnow(path: Path, given: Arrays, wanted: Arrays) -> Arrays:
    import minnow
    from minnow.errors import UnsupportedError

    target = Path(tempfile.mkdtemp()) / "model.mnn"
    try:
        minnow.convert(path, output=target, verify=False)
    except UnsupportedError as e:
        raise RefusedError("; ".join(str(r.reason) for r in getattr(e, "refused", ())) or e.message) from None
    return minnow.load(target, threads=1).run(given)


def opencv(path: Path, given: Arrays, wanted: Arrays) -> Arrays:
    import cv2

    try:
        net = cv2.dnn.readNetFromCaffe(str(path.with_suffix(".prototxt")), str(path))
        for name, array in given.items():
            net.setInput(array, name)
        # Its outputs are those of layers, not tops: their names stand in the text.
        blobs = net.forwardAndRetrieve(net.getUnconnectedOutLayersNames())
    except cv2.error as e:
        text = str(e).strip().replace("\n", " ")
        if any(word in text for word in ("Can't create layer", "not implemented", "-213", "Unspecified error")):
            raise RefusedError(text) from None
        raise
    found = [np.array(b) for parts in blobs for b in parts]
    return _by_shape(found, wanted)


def mnn(path: Path, given: Arrays, wanted: Arrays) -> Arrays:
    import _tools  # the package around it contacts a server when it is imported
    import MNN.expr as expr
    import MNN.nn as nn

    target = Path(tempfile.mkdtemp(prefix="mnn-")) / "m.mnn"
    words = ["mnnconvert", "-f", "CAFFE", "--modelFile", str(path), "--prototxt", str(path.with_suffix(".prototxt"))]
    _tools.mnnconvert([*words, "--MNNModel", str(target), "--bizCode", "bench"])
    if not target.exists():
        raise RefusedError("no file was written")
    known = nn.load_module_from_file(str(target), [], []).get_info()
    outputs = [n for n in wanted if n in known["outputNames"]] if set(wanted) <= set(known["outputNames"]) else None
    names = [n for n in given if n in known["inputNames"]]
    manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
    module = nn.load_module_from_file(str(target), names, outputs or known["outputNames"], runtime_manager=manager)

    def variable(array: Any) -> Any:
        plain = expr.const(np.ascontiguousarray(array), list(array.shape), expr.NCHW, expr.float)
        return expr.convert(plain, expr.NC4HW4) if array.ndim == 4 else plain

    results = module.forward([variable(given[name]) for name in names])
    results = results if isinstance(results, list) else [results]
    plain = [expr.convert(r, expr.NCHW) if r.data_format == expr.NC4HW4 else r for r in results]
    arrays = [np.array(r.read()).reshape(r.shape) for r in plain]
    return dict(zip(wanted, arrays, strict=True)) if outputs else _by_shape(arrays, wanted)


def _by_shape(found: list[Any], wanted: Arrays) -> Arrays:
    """Arrays without names, each as the first wanted one of its shape that is left."""
    left, named = list(found), {}
    for name, want in wanted.items():
        at = next((i for i, a in enumerate(left) if a.shape == want.shape), 0)
        if left:
            named[name] = left.pop(at)
    return named


BACKENDS = {f.__name__: f for f in (minnow, opencv, mnn)}


# ---- cases ----------------------------------------------------------------------------------------------------------


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its dimensions of 1, which runtimes with 4-D tensors add."""
    return tuple(d for d in shape if d != 1)


def _rows(found: Any) -> Any:
    """Rows of 7 numbers; of 6 where a runtime leaves the number of the image out."""
    if found.shape[-1] != 6:
        return found.reshape(-1, 7)
    flat = found.reshape(-1, 6)
    return np.concatenate([np.zeros((len(flat), 1), np.float32), flat], 1)


def attempt(backend: str, path: Path, entry: Mapping[str, Any]) -> Outcome:
    """(outcome, what was said) of one case."""
    arrays = np.load(path.with_suffix(".npz"))
    given, wanted = (
        {n.partition("/")[2]: arrays[n] for n in arrays.files if n.startswith(way)} for way in ("in", "out")
    )
    try:
        got = BACKENDS[backend](path, given, wanted)
        for name, want in wanted.items():
            if name not in got:
                return "wrong", f"there is no output {name}, only {', '.join(got)}"
            found = np.asarray(got[name]).astype(np.float32)
            if entry["rows"]:
                found, want = arranged(_rows(found)), arranged(want)
            elif _significant(found.shape) == _significant(want.shape):
                found = found.reshape(want.shape)
            if text := difference(found, want, entry["tolerance"]):
                return "wrong", f"{name}: {text}"
    except RefusedError as e:
        return "refused", str(e)[:300]
    except Exception as e:  # noqa: BLE001  (whatever a peer raises)
        return "error", f"{type(e).__name__}: {e}"[:300]
    return "pass", ""


def main() -> None:
    parser = options(__doc__, BACKENDS)
    parser.add_argument("folder", type=Path, help="the generated nets")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    manifest = json.loads((folder / "manifest.json").read_text())
    names = [n for n in manifest if re.search(asked.match, n)]

    def outcome(i: int) -> Outcome:
        return attempt(asked.backend, folder / manifest[names[i]]["file"], manifest[names[i]])

    run(outcome, [(n, manifest[n]["family"]) for n in names], asked)


if __name__ == "__main__":
    sys.exit(main())
