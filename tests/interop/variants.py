"""Adds to the corpus what MNN's converter writes with other options: python -m interop.variants FOLDER [--match REGEXP]

Of each case that matches, a folder `NAME@VARIANT` for every row of `VARIANTS`. Compressed weights give other numbers
than the source: what is expected of such a file is what MNN computes from it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from .build import finish

VARIANTS = {
    "fp16": "--fp16",
    "w8": "--weightQuantBits 8",
    "w8sym": "--weightQuantBits 8 --weightQuantAsymmetric 0",
    "w6": "--weightQuantBits 6",
    "w5": "--weightQuantBits 5",
    "w4": "--weightQuantBits 4",
    "w4half": "--weightQuantBits 4 --weightQuantScaleBit 16",
    "w4block": "--weightQuantBits 4 --weightQuantBlock 16",
    "w3sym": "--weightQuantBits 3 --weightQuantAsymmetric 0",
    "w2": "--weightQuantBits 2",
    "hqq": "--weightQuantBits 4 --hqq",
    "external": "--saveExternalData",
    "sparse": "--detectSparseSpeedUp 1",
    "static": "--saveStaticModel",
    "level0": "--optimizeLevel 0",
    "level2": "--optimizeLevel 2",
    "matmul": "--convertMatmulToConv 0",
    "unfused": "--useOriginRNNImpl",
    "fuse": "--transformerFuse",
}
EXACT = {"external", "sparse", "static", "level0", "matmul", "unfused", "fuse"}
"""Variants that compute what the source does."""


def add(folder: Path, match: str, only: str) -> list[Path]:
    """The folders of the variants of the cases that match."""
    made = []
    for line in (folder / "cases.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "@" in entry["case"] or entry["mnn"] != "right" or not re.search(match, entry["case"]):
            continue
        source = (folder / "cases" / entry["case"]).absolute()
        for name, options in VARIANTS.items():
            if not re.search(only, name):
                continue
            place = source.with_name(f"{source.name}@{name}")
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for file in source.iterdir():
                if file.name.startswith(("source", "given", "expected")):
                    shutil.copy(file, place)
            case = json.loads((source / "case.json").read_text())
            case |= {"kind": name, "by_mnn": name not in EXACT}
            (place / "case.json").write_text(json.dumps(case))
            line = [*json.loads((source / "arguments.json").read_text()), *options.split()]
            (place / "arguments.json").write_text(json.dumps(line))
            made.append(place)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="conv|dense|matmul|gemm|lstm|gru|network|attention|norm")
    parser.add_argument("--only", default="", help="variants whose names match")
    options = parser.parse_args()
    places = add(options.folder, options.match, options.only)
    journal = options.folder / "cases.jsonl"
    known = {e["case"]: e for e in map(json.loads, journal.read_text().splitlines())}
    known |= {e["case"]: e for e in finish(places)}
    journal.write_text("".join(json.dumps(e) + "\n" for e in known.values()))
    sys.stdout.write(f"{len(places)} files\n")


if __name__ == "__main__":
    main()
