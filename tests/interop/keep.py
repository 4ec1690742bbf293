"""Keeps small files of the corpus in the tests: python -m interop.keep FOLDER RELEASE

Of the cases that MNN and our engine run right, the smallest files that have all op types between them, and one for
each kind of file, as far as the files that are kept lack them. They go to `files/RELEASE/`, each with an .npz of its
inputs and outputs: what ran once, runs for ever.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.mnn.wire import read

FILES = Path(__file__).parent / "files"
MOST_BYTES = 4500
"""Of a file that is kept."""


def facts(net: dict[str, Any], case: dict[str, Any]) -> Iterator[str]:
    """What a file shows: op types, operations, and its kind."""
    tables = [net["oplists"], *(s.get("nodes", []) for s in net.get("subgraphs", []))]
    for op in (op for table in tables for op in table):
        kind = str(op.get("type", "AbsVal"))
        yield kind
        main = op.get("main", {})
        if kind in ("BinaryOp", "UnaryOp"):
            yield f"{kind} {main.get('opType', '')}"
        if op.get("main_type") == "LoopParam":
            yield "LoopParam"
        if "quanParameter" in main:
            yield f"weights {main['quanParameter'].get('type', 0)} {main['quanParameter'].get('scaleStorage', '')}"
    if case:
        yield f"{case['source']} {case['kind']}"


def keep(folder: Path, release: str) -> list[str]:
    """Copies the files; gives their names."""
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    right = [folder / "cases" / r["case"] for r in results if r["outcome"] == "right"]
    names = []
    target = FILES / release
    target.mkdir(parents=True, exist_ok=True)
    seen = {fact for file in target.glob("*.mnn") for fact in facts(read(file.read_bytes()), {})}
    for place in sorted(right, key=lambda p: ((p / "model.mnn").stat().st_size, p.name)):
        file = place / "model.mnn"
        if file.stat().st_size > MOST_BYTES:
            break
        case = json.loads((place / "case.json").read_text())
        found = set(facts(read(file.read_bytes()), case))
        if found <= seen:
            continue
        arrays = {f"in/{n}": a for n, a in np.load(place / "inputs.npz").items()}
        arrays |= {f"out/{n}": a for n, a in np.load(place / "expected.npz").items()}
        arrays |= {f"quantum/{n}": np.float64(q) for n, q in case["quanta"].items()}
        if sum(a.nbytes for a in arrays.values()) > MOST_BYTES:
            continue
        seen |= found
        name = f"{case['source']}_{place.name}".replace("node__test_", "").replace("@", "-")
        if (target / f"{name}.mnn").exists():
            continue
        shutil.copy(file, target / f"{name}.mnn")
        side = place / "model.mnn.weight"
        if side.exists():
            shutil.copy(side, target / f"{name}.mnn.weight")
        np.savez_compressed(target / f"{name}.npz", **arrays)
        names.append(name)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("release")
    options = parser.parse_args()
    names = keep(options.folder, options.release)
    size = sum(p.stat().st_size for p in (FILES / options.release).iterdir())
    sys.stdout.write(f"{len(names)} files, {size} bytes\n")


if __name__ == "__main__":
    main()
