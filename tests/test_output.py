"""What the commands write, and what they leave alone: devices, pipes, links, folders, full disks."""

from __future__ import annotations

import os
import resource
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from random_graphs import model_of
from rewriting import read
from wrong_rules import WRONG, registered

import minnow
from minnow.cli._app import run
from minnow.optimizer import optimize
from minnow.schema.errors import UsageError, WriteError
from minnow.schema.mnn import save

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
WRITE, USAGE = WriteError.exit_code, UsageError.exit_code


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    return path


@pytest.fixture
def wrong_model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("wrong") / "model.mnn"
    save(model_of(read(WRONG[0].text)), path)
    return path


# name of the file that must not be touched, the call that writes it
COMMANDS: dict[str, tuple[str, Callable[[Path, Path], list[str]]]] = {
    "convert": ("out.mnn", lambda folder, digits: ["convert", str(DIGITS), "-o", f"{folder}/out.mnn", "--no-verify"]),
    "bare": ("out.mnn", lambda folder, digits: [str(DIGITS), "-o", f"{folder}/out.mnn", "--no-verify"]),
    "flags": ("out.mnn", lambda folder, digits: ["-f", "ONNX", "--modelFile", str(DIGITS), "--MNNModel",
                                                 f"{folder}/out.mnn"]),
    "optimize": ("out.mnn", lambda folder, digits: ["optimize", str(digits), "-o", f"{folder}/out.mnn", "--no-verify"]),
    "run": ("out.npz", lambda folder, digits: ["run", str(digits), "-o", f"{folder}/out.npz"]),
    "side file": ("out.mnn.weight", lambda folder, digits: ["convert", str(DIGITS), "-o", f"{folder}/out.mnn",
                                                            "--no-verify", "--side-file"]),
    "packed": ("out.mnn.packed", lambda folder, digits: ["convert", str(DIGITS), "-o", f"{folder}/out.mnn",
                                                         "--no-verify", "--prepack"]),
    "bisect": ("out.mnn", lambda folder, digits: ["debug", "bisect", str(DIGITS), "-o", f"{folder}/out.mnn"]),
}  # fmt: skip


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """A copy of /dev/null; without the right to make one, a link to it."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.symlink_to("/dev/null")


def make_socket(path: Path) -> None:
    # Its name may have 107 bytes, which a temporary folder exceeds.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def make_link_to_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to("pipe")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.lstat().st_mode, p.lstat().st_ino) for p in folder.iterdir()}


@pytest.mark.parametrize("make", [make_folder, make_pipe, make_device, make_socket, make_link_to_pipe, make_loop])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_regular_file_stays(command, make, digits, tmp_path, capsys):
    name, line = COMMANDS[command]
    make(tmp_path / name)
    before = state_of(tmp_path)
    assert run(line(tmp_path, digits)) == WRITE
    assert "cannot write the output" in capsys.readouterr().err
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("command", ["convert", "optimize", "run", "side file", "packed"])
@pytest.mark.parametrize("dangling", [False, True], ids=["to a file", "to nothing yet"])
def test_a_link_stays_and_its_target_is_replaced(command, dangling, digits, tmp_path):
    name, line = COMMANDS[command]
    folder, elsewhere = tmp_path / "here", tmp_path / "there"
    folder.mkdir()
    elsewhere.mkdir()
    if not dangling:
        (elsewhere / "real").write_text("old")
    (folder / name).symlink_to("../there/real")
    assert run(line(folder, digits)) == 0
    assert os.readlink(folder / name) == "../there/real"
    assert (elsewhere / "real").stat().st_size > 100
    assert [p.name for p in elsewhere.iterdir()] == ["real"]
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]
    if command != "run":
        session = minnow.load(folder / "out.mnn") if command != "side file" else None
        assert session is None or session.outputs


def test_another_name_of_a_file_keeps_the_old_content(tmp_path):
    (tmp_path / "first").write_text("old")
    (tmp_path / "out.mnn").hardlink_to(tmp_path / "first")
    minnow.convert(DIGITS, output=tmp_path / "out.mnn", verify=False)
    assert (tmp_path / "first").read_text() == "old"
    assert minnow.load(tmp_path / "out.mnn").outputs


def test_the_permissions_of_a_file_stay_and_a_new_one_follows_the_umask(tmp_path):
    for name, given, expected in (("a.mnn", 0o640, 0o640), ("b.mnn", None, 0o644)):
        path = tmp_path / name
        if given is not None:
            path.touch()
            path.chmod(given)
        mask = os.umask(0o022)
        try:
            minnow.convert(DIGITS, output=path, verify=False)
        finally:
            os.umask(mask)
        assert stat.S_IMODE(path.stat().st_mode) == expected


@contextmanager
def largest_file(n: int) -> Iterator[None]:
    """Writing beyond n bytes fails as on a full disk; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, hard))
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep files that are cut off
    try:
        yield
    finally:
        sys.dont_write_bytecode = kept
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "bisect"])
def test_a_full_disk_leaves_nothing(command, digits, tmp_path, capfd):
    _, line = COMMANDS[command]
    with largest_file(200):
        assert run(line(tmp_path, digits)) == WRITE
    assert "cannot" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_the_file_that_was_there(tmp_path):
    (tmp_path / "out.mnn").write_text("old")
    with largest_file(200), pytest.raises(WriteError, match="cannot write the output"):
        minnow.convert(DIGITS, output=tmp_path / "out.mnn", verify=False)
    assert (tmp_path / "out.mnn").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_while_a_small_model_is_written(wrong_model, tmp_path, monkeypatch):
    monkeypatch.setattr("minnow.bisection.optimize", getattr(optimize, "__wrapped__", optimize))
    with registered(WRONG[0]), largest_file(50):
        assert run(["debug", "bisect", str(wrong_model), "-o", str(tmp_path / "small.mnn")]) == WRITE
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_space_says_so(digits, capsys):
    """/dev/full is a device that has no space; a drawing goes to a device as it is."""
    assert run(["inspect", str(digits), "--svg", "/dev/full"]) == WRITE
    assert "No space left on device" in capsys.readouterr().err


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_may_not_be_written(command, digits, capsys):
    _, line = COMMANDS[command]
    # A folder of its own: those of pytest are closed for others.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "digits.mnn"
        source.write_bytes(digits.read_bytes())
        source.chmod(0o444)
        folder.chmod(0o555)
        with as_nobody():
            assert run(line(folder, source)) == WRITE
        assert "is not writable" in capsys.readouterr().err
        assert list(folder.iterdir()) == [source]
        folder.chmod(0o755)


def test_a_read_only_file_is_not_replaced(tmp_path):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "out.mnn").write_text("mine")
        (folder / "out.mnn").chmod(0o444)
        with as_nobody(), pytest.raises(WriteError, match="not writable"):
            minnow.convert(DIGITS, output=folder / "out.mnn", verify=False)
        assert (folder / "out.mnn").read_text() == "mine"


def test_a_folder_without_files(tmp_path, digits, capsys):
    """Nobody can make a file in /proc, not even root."""
    for line in (["convert", DIGITS, "-o", "/proc/x.mnn"], ["run", digits, "-o", "/proc/x.npz"],
                 ["inspect", digits, "--dot", "/proc/x.dot"]):  # fmt: skip
        assert run([str(word) for word in line]) == WRITE
        assert "cannot write the output" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_does_not_exist_is_a_wrong_call(command, digits, tmp_path):
    _, line = COMMANDS[command]
    assert run(line(tmp_path / "none", digits)) == USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_is_called_minus(command, digits, tmp_path, monkeypatch, capsys):
    _, line = COMMANDS[command]
    monkeypatch.chdir(tmp_path)
    words = line(tmp_path, digits)
    place = next(i for i, word in enumerate(words) if word.startswith(f"{tmp_path}/out"))
    words[place] = "-"
    assert run(words) == USAGE
    assert "'-'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_ends_as_of_a_folder_is_a_wrong_call(command, digits, tmp_path):
    _, line = COMMANDS[command]
    words = line(tmp_path, digits)
    place = next(i for i, word in enumerate(words) if word.startswith(f"{tmp_path}/out"))
    words[place] = f"{tmp_path}/results/"
    assert run(words) == USAGE
    assert list(tmp_path.iterdir()) == []


def test_a_drawing_goes_through_a_pipe(digits, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    assert run(["inspect", str(digits), "--dot", str(tmp_path / "pipe")]) == 0
    reader.join()
    assert got[0].startswith("digraph")
    assert (tmp_path / "pipe").is_fifo()


def test_a_drawing_that_fails_leaves_the_old_one(digits, tmp_path):
    (tmp_path / "g.svg").write_text("old")
    with largest_file(200):
        assert run(["inspect", str(digits), "--svg", str(tmp_path / "g.svg")]) == WRITE
    assert (tmp_path / "g.svg").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_outputs_are_whole(digits, tmp_path):
    assert run(["run", str(digits), "-o", str(tmp_path / "y.npz")]) == 0
    with np.load(tmp_path / "y.npz") as file:
        assert set(file.files) == {o.name for o in minnow.load(digits).outputs}
