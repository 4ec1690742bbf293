"""A process that publishes entries until it is killed: store_worker.py STORE SEED."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from minnow.workflow.store import Store


def content(number: int) -> bytes:
    return random.Random(number).randbytes(20_000 + number)


def key(number: int) -> str:
    return f"{number:064x}"[::-1]


def main() -> None:
    store, order = Store(sys.argv[1]), random.Random(int(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        while True:
            number = order.randrange(40)
            path.write_bytes(content(number))
            store.put(key(number), {"number": number}, {"model.mnn": path, "again": path})
            print(number, flush=True)


if __name__ == "__main__":
    main()
