"""`-v` and `--log-file`: what they show, and which files they leave alone."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from minnow.cli._app import app, run

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
ENTRY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (DEBUG|INFO|ERROR) +(minnow[.\w]*): (.*)")


def entries(path: Path) -> list[tuple[str, str, str]]:
    """Level, logger and first line of each entry; every other line of the file is indented."""
    found = []
    for line in path.read_text().splitlines():
        if entry := ENTRY.fullmatch(line):
            found.append((entry[1], entry[2], entry[3]))
        else:
            assert line.startswith("    "), line
    return found


def commands(group: click.Group, name: str = "") -> list[tuple[str, click.Command]]:
    found = []
    for word in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), word)
        assert command is not None
        found += commands(command, f"{word} ") if isinstance(command, click.Group) else [(name + word, command)]
    return found


def test_every_command_takes_both() -> None:
    for name, command in [*commands(app), ("", app)]:
        flags = {flag for param in command.params for flag in param.opts}
        assert {"-v", "--verbose", "--log-file"} <= flags, name


def test_steps_go_to_standard_error_and_details_to_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "m.log"
    args = ["convert", str(DIGITS), "-o", str(tmp_path / "m.mnn"), "--no-verify"]
    assert run(args) == 0
    plain = capsys.readouterr()
    assert plain.err == ""
    assert run([*args, "-v", f"--log-file={log}"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[4:] == plain.out.splitlines()[4:], "the result is the same, but for the times"
    lines = shown.err.splitlines()
    assert all(re.match(r" *\d+\.\d\d s  \S", line) for line in lines)
    steps = [line.split("s  ")[1] for line in lines]
    for step in ("read", "optimize", "write"):
        assert any(re.fullmatch(rf"{step}: \d+\.\d\d s", text) for text in steps), step
    told = entries(log)
    assert {level for level, _, _ in told} == {"INFO", "DEBUG"}
    assert str(log) in told[0][2]
    assert told[-1][2].startswith("exit code 0 after ")
    assert [text for level, _, text in told[1:] if level == "INFO"] == steps
    assert any(text.startswith("fuse_conv_bn: 4 times") for level, _, text in told if level == "DEBUG")
    assert not any("fuse_conv_bn" in text for text in steps)


def test_a_log_is_continued_and_has_the_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "m.log"
    assert run(["--log-file", str(log), "check", str(tmp_path / "none.onnx")]) == 6
    assert run(["check", str(DIGITS), "--bogus", "--log-file", str(log)]) == 2
    error = capsys.readouterr().err.splitlines()[0].removeprefix("error: ")
    told = entries(log)
    assert next(text for level, _, text in told if level == "ERROR") == error
    assert "Error: No such option '--bogus'" in log.read_text()
    assert [text.split(" after")[0] for _, _, text in told if text.startswith("exit code")] == [
        "exit code 6",
        "exit code 2",
    ]


def test_a_defect_leaves_its_traceback_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(importlib.import_module("minnow.check"), "check_file", broken)
    assert run(["check", str(DIGITS), "--log-file", str(tmp_path / "m.log")]) == 1
    text = (tmp_path / "m.log").read_text()
    assert "Traceback" in text
    assert "in broken" in text


def test_only_a_log_is_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "digits.onnx"
    shutil.copy(DIGITS, model)
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("my notes\n")
    cases = {"digits.onnx": 8, "notes.txt": 8, "folder": 8, "none/x.log": 2}
    for name, code in cases.items():
        assert run(["check", str(model), "--log-file", str(tmp_path / name)]) == code
        assert "error: " in capsys.readouterr().err
    assert run(["convert", "--log-file", str(model)]) == 8, "the model was taken for the log, which is not there"
    assert model.read_bytes() == DIGITS.read_bytes()
    assert (tmp_path / "notes.txt").read_text() == "my notes\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["digits.onnx", "folder", "notes.txt"]


def test_a_full_disk_ends_the_log_and_not_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from minnow.cli import _log

    monkeypatch.setattr("minnow.output.target_of", Path)
    monkeypatch.setattr(_log, "_TIME", re.compile(b""))
    assert run(["check", str(DIGITS), "--log-file", "/dev/full"]) == 0
    done = capsys.readouterr()
    assert done.err == "note: the log /dev/full ends here: No space left on device\n"
    assert "can be converted" in done.out


def test_dash_v_alone_is_still_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-v", "-V", "--version"):
        assert run([flag]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 1


def test_a_library_is_silent_and_does_not_configure_logging(tmp_path: Path) -> None:
    lines = (
        "import sys, minnow; assert 'logging' not in sys.modules; minnow.check(sys.argv[1]); import logging;"
        "print(logging.getLogger().handlers, logging.getLogger('minnow').handlers, logging.getLogger('minnow').level)"
    )
    done = subprocess.run([sys.executable, "-c", lines, str(DIGITS)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] [] 0\n", "")


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "minnow", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: python -m minnow check ")
