"""Damages files in many ways, loads and runs what comes out. Started by test_damaged_files.py in a process of its own,
so that a crash is a failed test and not the end of all tests.

    python damage_worker.py FILE FIRST LAST

Prints the number of files that could be loaded, and of those that ran. Whatever is no MinnowError ends the process.
"""

from __future__ import annotations

import copy
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.schema.errors import MinnowError
from minnow.schema.mnn import wire

NUMBERS = [0, 1, -1, 2, -2, 3, 7, 100, -100, 2**31 - 1, -(2**31), 65536, 1 << 20]
KEPT = ("tensorName", "outputName", "name", "extraInfo", "mnn_uuid")


def damaged_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut off, or with some bytes changed."""
    if rng.random() < 0.3:
        return data[: int(rng.integers(len(data)))]
    changed = np.frombuffer(data, np.uint8).copy()
    for _ in range(int(rng.integers(1, 9))):
        changed[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return changed.tobytes()


def leaves(table: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(table, dict):
        for key, value in table.items():
            if key not in KEPT:
                yield from leaves(value, (*path, key))
    elif isinstance(table, list):
        for i, value in enumerate(table):
            yield from leaves(value, (*path, i))
        if table:
            yield (*path, None)
    elif isinstance(table, (np.ndarray, int, float)):
        yield path


def damaged_tables(data: bytes, rng: np.random.Generator) -> bytes:
    """A sound file with wrong numbers in it, with parts too many or too few."""
    net = copy.deepcopy(wire.read(data))
    for _ in range(int(rng.integers(1, 4))):
        places = list(leaves(net))
        *steps, last = places[int(rng.integers(len(places)))]
        holder = net
        for step in steps:
            holder = holder[step]
        number = NUMBERS[int(rng.integers(len(NUMBERS)))]
        if last is None:
            i = int(rng.integers(len(holder)))
            if rng.random() < 0.5:
                del holder[i]
            else:
                holder.append(copy.deepcopy(holder[i]))
        elif isinstance(holder[last], np.ndarray):
            array = holder[last].copy()
            if array.size and array.dtype.kind in "iu" and rng.random() < 0.5:
                array[rng.integers(array.size)] = np.int64(number).astype(array.dtype)
            else:
                array = array[: int(rng.integers(array.size + 1))]
            holder[last] = array
        elif isinstance(holder[last], bool):
            holder[last] = not holder[last]
        else:
            holder[last] = number if isinstance(holder[last], int) else float(number)
    return wire.write(net)


def main(path: str, first: int, last: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # what asks for more is refused by the system
    data = Path(path).read_bytes()
    loaded = ran = 0
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        changed = damaged_tables(data, rng) if seed % 2 else damaged_bytes(data, rng)
        print(seed, end=" ", flush=True)
        try:
            session = minnow.load(changed, threads=1)
            loaded += 1
            shapes = [[d if isinstance(d, int) else 2 for d in i.shape or ()] for i in session.inputs]
            if sum(float(np.prod(s, dtype=float)) for s in shapes) < 1e6:
                feeds = zip(session.inputs, shapes, strict=True)
                arrays = {i.name: (2 * rng.standard_normal(s)).astype(i.dtype) for i, s in feeds}
                session.run({i.name: [arrays[i.name]] * 2 if i.container else arrays[i.name] for i in session.inputs})
                ran += 1
        except MinnowError as error:
            str(error)
    print(f"\n{loaded} {ran}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
