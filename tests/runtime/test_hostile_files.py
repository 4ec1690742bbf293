"""Files that mean harm end in an error of our own, soon, and without much memory."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hostile_files import FOLDER, SOUND, all_files

WORKER = Path(__file__).with_name("open_worker.py")
COMMAND = [str(Path(sys.executable).with_name("mnnconvert")), "run"]
SECONDS = 10
BYTES = 1 << 30
KEPT = sorted(p.stem for p in FOLDER.glob("*.mnn"))


def ends_well(command: list[str], codes: tuple[int, ...] = (3, 6)) -> str:
    """What it printed, having ended with one of the codes; these two are for a file that is at fault."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=4 * SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode in codes, said
    assert time.monotonic() - start < SECONDS
    return said


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(all_files()))
def test_loading_and_running(name, tmp_path):
    path = tmp_path / f"{name}.mnn"
    path.write_bytes(all_files()[name]())
    said = ends_well([sys.executable, str(WORKER), str(path)], (0,) if name in SOUND else (3, 6))
    assert "Traceback" not in said
    assert int(said.splitlines()[-1]) < BYTES


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KEPT)
def test_command_line(name):
    """The command may refuse what the engine runs: its reader counts the nodes of equal branches again and again."""
    said = ends_well([*COMMAND, str(FOLDER / f"{name}.mnn")], (0, 3) if name in SOUND else (3, 6))
    assert name in SOUND or "error" in said
