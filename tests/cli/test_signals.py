"""Signals, sent to real processes: no traceback, nothing half written, the documented exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
# As the installed command does it; and says when it is ready, from which moment on Ctrl-C is its own.
COMMAND = [
    *(sys.executable, "-c"),
    """
import _signal, sys
from minnow.cli import main

def install(*args, real=_signal.signal):
    real(*args)
    _signal.signal = real
    sys.stdout.write("ready\\n")
    sys.stdout.flush()

_signal.signal = install
main()
""",
]
ENDED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def usual_signals() -> None:
    """Pytest may have been started with some ignored, as what runs in the background is."""
    for number in ENDED:
        signal.signal(number, signal.SIG_DFL)


def started(*args: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*COMMAND, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=usual_signals,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def interrupted_after(seconds: float, folder: Path) -> None:
    process = started("convert", DIGITS, "-o", folder / "out.mnn", "--no-verify")
    time.sleep(seconds)
    done = process.poll() is not None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert "Error" not in said
    names = [p.name for p in folder.iterdir()]
    if process.returncode == 0:  # it was faster, or had finished when the signal came
        assert names == ["out.mnn"]
        (folder / "out.mnn").unlink()
        return
    assert not done
    assert process.returncode == 130, (seconds, said)
    assert "interrupted" in said
    assert not [n for n in names if n != "out.mnn"]
    (folder / "out.mnn").unlink(missing_ok=True)


@pytest.mark.parametrize("ms", [0, 10, 60])
def test_ctrl_c_at_the_start_shows_no_traceback(ms: int, tmp_path: Path) -> None:
    interrupted_after(ms / 1000, tmp_path)


@pytest.mark.slow
def test_ctrl_c_at_any_moment_shows_no_traceback(tmp_path: Path) -> None:
    for ms in [*range(0, 100, 4), *range(100, 1000, 50)]:
        interrupted_after(ms / 1000, tmp_path)


@pytest.mark.parametrize("number", ENDED, ids=lambda n: n.name)
def test_a_signal_in_a_callback_is_not_lost(number: signal.Signals) -> None:
    """Python prints what a callback raises, and goes on: imports have such callbacks, at each lock of a module."""
    lines = f"""
import signal, time, weakref
from minnow.cli import _app, main

class Lock: pass

def run(args):
    lock = Lock()
    watch = weakref.ref(lock, lambda _: signal.raise_signal({int(number)}))
    del lock
    time.sleep(60)

_app.run = run
main([])
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False, timeout=50,
                          preexec_fn=usual_signals)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (ENDED[number], "", "")


def test_the_command_is_ready_at_once() -> None:
    """Before it is, Ctrl-C is the interpreter's, which shows where it was: nothing may be imported until then."""
    lines = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); import minnow.cli; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['__future__', 'minnow', 'minnow.cli']"


@pytest.mark.parametrize("number", ENDED, ids=lambda n: n.name)
def test_a_signal_removes_what_is_half_written(number: signal.Signals, tmp_path: Path) -> None:
    process = started("convert", DIGITS, "-o", tmp_path / "out.mnn", "--side-file", "--prepack")
    end = time.monotonic() + 60
    while not list(tmp_path.glob(".*.part")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == ENDED[number]
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_what_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    """`nohup mnnconvert ... &` goes on when the terminal closes."""

    def ignore() -> None:
        for number in ENDED:
            signal.signal(number, signal.SIG_IGN)

    process = subprocess.Popen([*COMMAND, "convert", str(DIGITS), "-o", str(tmp_path / "out.mnn"), "--no-verify"],
                               stdout=subprocess.DEVNULL, preexec_fn=ignore)  # fmt: skip
    for _ in range(20):
        time.sleep(0.02)
        if process.poll() is None:
            for number in ENDED:
                os.kill(process.pid, number)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "out.mnn").exists()


def test_ctrl_c_that_a_library_has_made_an_error_of_is_ctrl_c(monkeypatch, capsys) -> None:
    from minnow.cli import _app

    def failing(*args: object, **options: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as e:
            raise ImportError("cannot load the library") from e

    monkeypatch.setattr(_app.app, "main", failing)
    assert _app.run(["check", "x.onnx"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
