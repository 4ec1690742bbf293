"""Makes all files of the suite: python -m tests.suites.caffe_suite.generate FOLDER [--match REGEXP]

Of each case a prototxt, a caffemodel, and what it is given and has to give in an .npz; `manifest.json` says of every
case what it is. It takes seconds, and a Python with torch, onnxruntime and OpenCV, which judge.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .case import Case, load_all
from .judge import expected
from .write import write

MANIFEST = "manifest.json"


def make(case: Case, folder: Path) -> dict[str, Any]:
    """The files of a case; gives what the manifest says of it."""
    path = write(case, folder)
    arrays = {f"in/{n}": a for n, a in case.arrays().items()}
    arrays |= {f"out/{n}": a for n, a in expected(case, path).items()}
    np.savez(path.with_suffix(".npz"), **arrays)
    by = "OpenCV" if case.judge is None else "torch"
    return {"file": path.name, "family": case.family, "tolerance": case.tolerance, "rows": case.rows, "judge": by}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    manifest = {n: make(c, options.folder) for n, c in load_all().items() if re.search(options.match, n)}
    (options.folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    sys.stdout.write(f"{len(manifest)} nets made\n")


if __name__ == "__main__":
    main()
