"""Colors and the spinner, on terminals and where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
COMMAND = Path(sys.executable).with_name("mnnconvert")
GREEN, RED, RESET = "\x1b[32m\x1b[1m", "\x1b[31m\x1b[1m", "\x1b[0m"
NAMES = ("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM")
PLAIN = {name: text for name, text in os.environ.items() if name not in NAMES}

PROGRAM = """
import sys, time
from minnow.cli._log import error, note
from minnow.cli._terminal import show, spinner
with spinner() as tell:
    if tell:
        tell("read")
        time.sleep(0.3)
show("PASS  4 runs\\n  FAIL  y\\nINCONCLUSIVE  x\\nthe word FAIL stays\\nnote: a note")
error("error: wrong\\n  try: again")
"""
TEXT = "PASS  4 runs\n  FAIL  y\nINCONCLUSIVE  x\nthe word FAIL stays\nnote: a note\n"
ERROR = "error: wrong\n  try: again\n"


def on_terminal(*command: object, **variables: str) -> str:
    """What a program shows on a terminal of its own."""
    outer, inner = pty.openpty()
    environment = {**PLAIN, "TERM": "xterm-256color", "COLUMNS": "120", **variables}
    process = subprocess.Popen([*map(str, command)], env=environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    shown = bytearray()
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:  # all of it has been read
            break
        if not part:
            break
        shown += part
    os.close(outer)
    process.wait(timeout=60)
    return shown.decode().replace("\r\n", "\n")


def piped(**variables: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
                          env={**PLAIN, **variables})  # fmt: skip
    return done.stdout, done.stderr


def test_a_terminal_has_colors_and_a_spinner() -> None:
    shown = on_terminal(sys.executable, "-c", PROGRAM)
    assert "\x1b[?25l" in shown, "the cursor is hidden while the spinner turns"
    assert "read" in shown
    assert f"{GREEN}PASS{RESET}  4 runs\n" in shown
    assert f"  {RED}FAIL{RESET}  y\n" in shown
    assert "the word FAIL stays\n" in shown
    assert f"{RED}error:{RESET} wrong\n  try: again\n" in shown


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"CI": "1", "FORCE_COLOR": "1"}], ids=str)
def test_a_job_has_colors_and_no_spinner(variables: dict[str, str]) -> None:
    shown = on_terminal(sys.executable, "-c", PROGRAM, **variables)
    assert shown.startswith(f"{GREEN}PASS{RESET}")
    assert "\x1b[?25" not in shown


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"NO_COLOR": "1", "CI": "true"}], ids=str)
def test_plain_text_where_nothing_else_is_wanted(variables: dict[str, str]) -> None:
    assert on_terminal(sys.executable, "-c", PROGRAM, **variables) == TEXT + ERROR


def test_no_color_leaves_the_spinner_without_colors() -> None:
    shown = on_terminal(sys.executable, "-c", PROGRAM, NO_COLOR="yes", FORCE_COLOR="1")
    assert shown.endswith(TEXT + ERROR)
    assert "\x1b[3" not in shown


def test_pipes_get_plain_text_unless_colors_are_forced() -> None:
    assert piped() == (TEXT, ERROR)
    assert piped(NO_COLOR="1", FORCE_COLOR="1") == (TEXT, ERROR)
    assert piped(FORCE_COLOR="0") == (TEXT, ERROR)
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        out, err = piped(**{name: "1"})
        assert out.startswith(f"{GREEN}PASS{RESET}")
        assert err.startswith(f"{RED}error:{RESET}")
        assert "\x1b[?25" not in err


def test_commands_show_verdicts_and_errors_in_color(tmp_path: Path) -> None:
    shown = on_terminal(COMMAND, DIGITS, "-o", tmp_path / "m.mnn")
    assert f"\n{GREEN}PASS{RESET}  4 runs" in shown
    assert f"\n  {GREEN}PASS{RESET}  probability" in shown
    assert f"{RED}error:{RESET} cannot read the file\n" in on_terminal(COMMAND, "none.onnx")
    assert f"{RED}Error:{RESET} No such option" in on_terminal(COMMAND, "check", "--bogus")


def test_verbose_steps_take_the_place_of_the_spinner(tmp_path: Path) -> None:
    shown = on_terminal(COMMAND, DIGITS, "-v", "--no-verify", "-o", tmp_path / "m.mnn")
    assert "\x1b[?25" not in shown
    assert "  optimize\n" in shown
