"""Netron, the viewer of models, opens the files we write, and sees the nodes that are there.

Its parsers are JavaScript: they need Node.js, and the package `netron` or its folder of scripts in MINNOW_NETRON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
from e2e.shared_models import SHARED, needs_models
from mnn_suite.case import op_cases, shared_cases

from minnow.optimizer import optimize
from minnow.schema.errors import MinnowError
from minnow.schema.mnn import save, wire

NODE = shutil.which("node") or "node"
_found = find_spec("netron")
NETRON = os.environ.get("MINNOW_NETRON") or (str(Path(_found.origin).parent) if _found and _found.origin else "")
WORKER = Path(__file__).with_name("netron_worker.mjs")

pytestmark = pytest.mark.slow


def opened(files: list[Path], folder: Path) -> list[dict]:
    """What Netron says of each file."""
    listed = folder / "list.txt"
    listed.write_text("\n".join(map(str, files)))
    done = subprocess.run([NODE, WORKER, NETRON, listed], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


UNREAD = "Unsupported (blob )?data type"
"""What it says of constants of types that it does not read, such as int64: those that MNN's runtime lacks, too."""


def check(files: dict[Path, bool], folder: Path, least: float = 0.85) -> None:
    """Netron opens the files; its nodes are the ops of each, but for constants and inputs, which it shows otherwise.

    Args:
        files: whether each is for every runtime, so that all its constants have types that Netron reads.
        least: the part of them, from 0 to 1, that it opens at least.
    """
    said = opened(list(files), folder)
    assert [row["file"] for row in said] == list(map(str, files))
    for (path, native), row in zip(files.items(), said, strict=True):
        if row["error"]:
            assert not native, f"{path.name}: {row['error']}"
            assert re.match(UNREAD, row["error"]), f"{path.name}: {row['error']}"
            continue
        net = wire.read(path.read_bytes())
        ops = Counter(op["type"] for op in net["oplists"] if op["type"] not in ("Input", "Const"))
        assert Counter(n for n in row["nodes"] if n != "Const") == ops, path.name
        assert row["inputs"] == sum(op["type"] == "Input" for op in net["oplists"]), path.name
    opened_ones = sum(not row["error"] for row in said)

    assert opened_ones >= least * len(files), f"{opened_ones} of {len(files)} were opened"


@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_samples_of_all_ops(target: str, tmp_path: Path) -> None:
    files = {}
    for i, case in enumerate(islice(op_cases(), 0, None, 3)):
        try:
            model = case.model()
            optimize(model, 0, target=target)
            path = tmp_path / f"{i}_{case.name.replace(' ', '_')}.mnn"
            save(model, path)
        except MinnowError:  # what has no type: the tests of the codec know these
            continue
        files[path] = target == "mnn" and not model.notices
    assert len(files) > 2000
    check(files, tmp_path)


@needs_models
@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_the_shared_models(target: str, tmp_path: Path) -> None:
    files = {}
    for case in shared_cases():
        model = case.model()
        optimize(model, 2, target=target)
        path = tmp_path / f"{case.name}.mnn"
        save(model, path)
        files[path] = target == "mnn" and not model.notices
    for path in sorted((SHARED / "mnn").rglob("*.mnn")):
        files[Path(shutil.copy(path, tmp_path / path.name))] = True
    # Files for Minnow alone have sizes and indices in int64.
    check(files, tmp_path, 0.85 if target == "mnn" else 0.5)
