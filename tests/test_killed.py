"""What a conversion leaves behind when it is killed at any moment: under the target's name a whole file or none."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.output import replaced, written

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
COMMAND = [sys.executable, "-c", "from minnow.cli import main; main()"]


def started(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """In a session of its own, by which its children are found."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=folder, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder / "tmp")},
    )  # fmt: skip


def of_session(session: int) -> list[int]:
    """Processes of the session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(number) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def ended(process: subprocess.Popen[str], number: int) -> str:
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    limit = time.monotonic() + 10
    while of_session(process.pid) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not of_session(process.pid)
    assert "Traceback" not in said
    return said


def seconds_of(folder: Path, *arguments: object) -> float:
    start = time.monotonic()
    process = started(folder, *arguments)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return time.monotonic() - start


def check_outputs(folder: Path, names: set[str]) -> None:
    """Whole files under their names, and hidden temporary ones."""
    for path in folder.iterdir():
        if path.name in names and path.suffix == ".mnn":
            session = minnow.load(path)
            (info,) = session.inputs
            session.run({info.name: np.zeros([d if isinstance(d, int) else 1 for d in info.shape or ()], info.dtype)})
        else:
            assert path.name in names or path.name == "tmp" or path.name.endswith(".part") or ".part." in path.name


COMMANDS = {
    "convert": (["convert", DIGITS, "-o", "out.mnn", "--no-verify"], {"out.mnn"}),
    "convert and verify": (["convert", DIGITS, "-o", "out.mnn"], {"out.mnn"}),
    "prepack": (
        ["convert", DIGITS, "-o", "out.mnn", "--prepack", "--side-file", "--no-verify"],
        {"out.mnn", "out.mnn.weight", "out.mnn.packed"},
    ),
    "report": (["report", DIGITS, "-o", "out.html", "--no-time"], {"out.html"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_moment(name: str, number: int, tmp_path: Path) -> None:
    arguments, names = COMMANDS[name]
    (tmp_path / "tmp").mkdir()
    whole = seconds_of(tmp_path, *arguments)
    assert {p.name for p in tmp_path.iterdir()} == {*names, "tmp"}
    moments = random.Random(name)
    for k in range(12):
        for left in tmp_path.glob("out*"):
            left.unlink()
        process = started(tmp_path, *arguments)
        # Half of the moments are near the end, where files are written.
        time.sleep(whole * (moments.random() if k % 2 else 0.6 + 0.5 * moments.random()))
        ended(process, number)
        check_outputs(tmp_path, names)
        if number == signal.SIGTERM:
            assert process.returncode in (0, 143, -number)  # the last: before the program could say more
            assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    for left in tmp_path.glob(".*"):  # as if some time had passed
        os.utime(left, (0, 0))
    seconds_of(tmp_path, *arguments)
    assert {p.name for p in tmp_path.iterdir()} == {*names, "tmp"}


def leftover(folder: Path, name: str, age: float = 60) -> Path:
    path = folder / name
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path: Path) -> None:
    mine = [leftover(tmp_path, f".out.mnn.0123456789a{k}.part{end}") for k in "bc" for end in ("", ".weight")]
    orphan = leftover(tmp_path, ".out.mnn.0123456789ad.part.packed.17-1.part")
    others = [
        leftover(tmp_path, ".other.mnn.0123456789ab.part"),  # another target
        leftover(tmp_path, ".out.mnn.0123456789.part"),  # of no form that we write
        leftover(tmp_path, "out.mnn.0123456789ab.part"),
        leftover(tmp_path, ".out.mnn.0123456789ae.part", age=0),  # may just have been created
    ]
    used = leftover(tmp_path, ".out.mnn.0123456789af.part")
    with used.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # by another process
        with written(tmp_path / "out.mnn") as part:
            part.write_bytes(b"whole")
    assert (tmp_path / "out.mnn").read_bytes() == b"whole"
    assert not any(p.exists() for p in [*mine, orphan])
    assert all(p.exists() for p in [*others, used])


def test_two_writers_of_one_target_leave_each_other_alone(tmp_path: Path) -> None:
    with replaced(tmp_path / "out") as first:
        first.write_bytes(b"first")
        os.utime(first, (0, 0))
        with replaced(tmp_path / "out") as second:
            second.write_bytes(b"second")
        assert (tmp_path / "out").read_bytes() == b"second"
    assert (tmp_path / "out").read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arguments", [COMMANDS[name][0] for name in ("convert", "prepack", "report")], ids=str)
def test_a_limit_of_file_sizes_is_a_full_disk(arguments: list[object], tmp_path: Path) -> None:
    """A write comes back short, then fails: nothing is left, exit code 8."""
    (tmp_path / "tmp").mkdir()
    limit = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
    # -B: Python would keep the files of bytecode that the limit cuts off, and fail to import them ever after.
    line = [sys.executable, "-B", "-c", limit + "from minnow.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 8, done.stderr
    assert "cannot" in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["tmp"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 500, 20000])
@pytest.mark.parametrize("command", ["ci --config plan.toml", "fleet plan.toml --store store"])
def test_conversions_of_many_models_on_a_full_disk(command: str, size: int, tmp_path: Path) -> None:
    """Each fails with the reason, in its process or before; no output, receipt or stored result is there in part."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "plan.toml").write_text(f'[models.digits]\nsource = "{DIGITS}"\noutput = "out/{{name}}.mnn"\n')
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
    line = [sys.executable, "-c", limit + "from minnow.cli import main; main()", *command.split()]
    told = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}  # see above
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, env=told)
    assert done.returncode == 8, done.stderr
    assert "cannot write" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix in (".mnn", ".json", ".part")] == []
