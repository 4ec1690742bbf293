"""Converts every NAME.onnx of a folder to NAME.minnow.mnn.

python bench/prepare.py FOLDER [NAME ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import minnow


def main() -> None:
    folder, *names = sys.argv[1:]
    for source in sorted(Path(folder).glob("*.onnx")):
        # Files with two endings are variants made for other runtimes.
        if (names and source.stem not in names) or "." in source.stem:
            continue
        begin = time.perf_counter()
        report = minnow.convert(source, output=source.with_suffix(".minnow.mnn"), verify=False)
        nodes = sum(report.nodes_after.values())
        print(f"{source.stem}: {nodes} nodes, {report.output_bytes / 1e6:.1f} MB, {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
