"""Writes networks of nets.py as .mnn files: python bench/gpu/prepare.py FOLDER resnet50:1 vit_s:32 ..."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

import torch
from nets import make

import minnow


def prepare(folder: Path, name: str, batch: int) -> None:
    """Writes `<name>_<batch>.mnn`."""
    start = time.perf_counter()
    module, inputs = make(name, batch)
    with torch.no_grad():
        exported = torch.export.export(module, inputs)
        source = folder / f"{name}_{batch}.pt2"
        torch.export.save(exported, source)
        minnow.convert(source, output=source.with_suffix(".mnn"), target="minnow", verify=False)
    source.unlink()
    print(f"{name} batch {batch}: prepared in {time.perf_counter() - start:.1f} s", flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for job in sys.argv[2:]:
        name, batch = job.split(":")
        try:
            prepare(folder, name, int(batch))
        except Exception:  # noqa: BLE001  (the others are to be prepared all the same)
            traceback.print_exc(limit=3)


if __name__ == "__main__":
    main()
