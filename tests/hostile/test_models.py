"""Hostile model files: every command ends in an error of ours, soon, in little memory, and leaves no file behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.make import FILES, REFUSED, external, onnx_file
from onnx import helper

import minnow
from minnow.cli._app import run
from minnow.converter import read
from minnow.converter.file import door
from minnow.schema.errors import MinnowError

_SECONDS = 10.0
_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(door, "strict", False)
    return


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile")
    for name, make in FILES.items():
        (path / name).write_bytes(make())
    return path


class Bounded:
    """The test's own process must not take more of its memory than this while the block runs."""

    def __enter__(self) -> None:
        self.begin = time.monotonic()
        status = Path("/proc/self/status").read_text()
        used = int(status.partition("VmData:")[2].split()[0]) << 10
        self.before = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + _BYTES, self.before[1]))

    def __exit__(self, *error: object) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, self.before)
        assert time.monotonic() - self.begin < _SECONDS


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FILES)
def test_no_command_is_harmed(name: str, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mnn"
    refused = False
    with Bounded():
        try:
            refused = not minnow.check(folder / name).convertible
        except MinnowError as e:
            refused = e.exit_code == 6
    assert refused is (name in REFUSED)
    for verify in (False, True):
        error = None
        if refused and verify:
            continue
        with Bounded():
            try:
                minnow.convert(folder / name, output=output, verify=verify)
            except MinnowError as e:
                error = e
        if refused:
            assert error is not None
        if error is not None:
            # What is valid may still be more than a comparison can take: the source itself runs on no input then.
            assert error.exit_code in ((3, 6) if refused else (3, 4)), error
            assert refused or verify
            assert not list(tmp_path.iterdir())
        output.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("check",), ("inspect",), ("convert",), ("convert", "--no-verify")], ids=" ".join)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_the_commands_say_so(name: str, command: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "out.mnn")] if command[0] == "convert" else []
    program = [sys.executable, "-c", "from minnow.cli import main; main()"]
    line = [*program, command[0], str(folder / name), *command[1:], *output]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (_BYTES, _BYTES))

    done = subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, preexec_fn=limit, check=False)
    assert done.returncode in (3, 6), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "through a link", "missing"])
def test_external_data_is_a_plain_file_beside_the_model(kind: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    path, data = tmp_path / "m" / "m.onnx", tmp_path / "m" / "data"
    outside = tmp_path / "secret"
    outside.write_bytes(bytes(8))
    location = "data"
    if kind == "fifo":
        os.mkfifo(data)
    elif kind == "link":
        data.symlink_to(outside)
    elif kind == "folder":
        data.mkdir()
    elif kind == "through a link":
        data.symlink_to(tmp_path)
        location = "data/secret"
    path.write_bytes(external(location))
    found: list[BaseException] = []

    def attempt() -> None:
        try:
            read(path)
        except MinnowError as e:
            found.append(e)

    reader = threading.Thread(target=attempt, daemon=True)  # who opens the FIFO waits for ever
    reader.start()
    reader.join(_SECONDS)
    assert [getattr(e, "exit_code", 0) for e in found] == [6]


@pytest.mark.parametrize("command", ["check", "inspect", "convert"])
def test_names_do_not_command_the_terminal(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file calls its parts is text: no sequence that clears a screen or sets a title gets out."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    evil = "n\x1b[2J\x1b]0;title\x07\x9b31m"
    (tmp_path / "m.onnx").write_bytes(onnx_file([helper.make_node(f"Nope{evil}", ["x"], ["y"], name=evil)]))
    assert run([command, str(tmp_path / "m.onnx"), *["-o", str(tmp_path / "out.mnn")] * (command == "convert")]) == 3
    said = "".join(capsys.readouterr())
    assert "\\x1b[2J" in said
    assert not {"\x1b[2J", "\x1b]", "\x07", "\x9b"} & {said[i : i + n] for i in range(len(said)) for n in (1, 2, 4)}
