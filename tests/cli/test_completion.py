"""Completion of command lines: what bash is offered, and (slow) what bash, zsh and fish make of the Tab key."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
DRIVER = """
eval "$(mnnconvert completion bash)"
while IFS= read -r COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    _mnnconvert_completion mnnconvert 2>/dev/null
    printf '%s\\x1f' "${COMPREPLY[@]}"
    printf '\\n'
done
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("net.onnx", "net.MNN", "my net.tflite", "notes.txt", "a:b.pb", ".hidden.onnx"):
        (folder / name).touch()
    (folder / "saved").mkdir()
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").touch()
    return folder


def offered(folder: Path, *lines: str) -> list[list[str]]:
    """What bash is offered at the end of each line."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(["bash", "--norc", "-c", DRIVER], input=text, capture_output=True, text=True, cwd=folder,
                          env=ENVIRONMENT, check=True, timeout=100)  # fmt: skip
    assert not done.stderr
    return [[word for word in row.split("\x1f") if word] for row in done.stdout.splitlines()]


CASES = {
    "mnnconvert co": ["completion", "convert"],
    "mnnconvert ne": ["net.MNN", "net.onnx"],
    "mnnconvert convert ": ["a:b.pb", "my net.tflite", "net.MNN", "net.onnx", "saved", "texts"],
    "mnnconvert convert my\\ n": ["my net.tflite"],
    'mnnconvert convert "my n': ["my net.tflite"],
    "mnnconvert convert a:": ["b.pb"],
    "mnnconvert run ": ["net.MNN", "saved", "texts"],
    "mnnconvert run texts/": ["texts/a.txt"],
    "mnnconvert run net.MNN --data no": ["notes.txt"],
    "mnnconvert net.onnx --targ": ["--target"],
    "mnnconvert net.onnx --target ": ["mnn", "minnow"],
    "mnnconvert net.onnx --target=mi": ["minnow"],
    "mnnconvert --target=mi": ["minnow"],
    "mnnconvert -v verify --fo": ["--format"],
    "mnnconvert convert -O ": ["0", "1", "2", "3"],
    "mnnconvert benchmark net.MNN --against openvino,on": ["openvino,onnxruntime"],
    "mnnconvert convert --passes fuse_conv_b": ["fuse_conv_bias", "fuse_conv_bn"],
    "mnnconvert convert --framework ca": ["caffe"],
    "mnnconvert ops -f t": ["tensorflow", "tflite", "torch"],
    "mnnconvert run --device c": ["cpu"],
    "mnnconvert debug ": ["bisect"],
    "mnnconvert completion ": ["bash", "zsh", "fish"],
}


def test_commands_flags_values_and_models_are_completed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minnow.cli._app import app
    from minnow.cli._complete import Bash

    monkeypatch.chdir(folder)
    found = {}
    for line in CASES:
        monkeypatch.setenv("_MNNCONVERT_COMPLETE_LINE", line)
        rows = Bash(app, {}, "mnnconvert", "_MNNCONVERT_COMPLETE").complete().splitlines()
        found[line] = [row.split("\t")[1] for row in rows]
    assert found == CASES


def test_bash_gets_them(folder: Path) -> None:
    some = [line for line in CASES if "my" in line or "a:" in line or "net.MNN" in line]
    assert len(some) == 5
    assert offered(folder, *some) == [CASES[line] for line in some]


def test_a_library_for_a_device_is_offered(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libminnow_toy.so").touch()
    monkeypatch.setitem(ENVIRONMENT, "MINNOW_BACKENDS", str(tmp_path))
    assert offered(folder, "mnnconvert run --device to") == [["toy"]]


def test_completing_writes_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"x")
    offered(tmp_path, "mnnconvert convert net.onnx --log-file x.log --targ", "mnnconvert -v --log-file=x.log ")
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_names_of_rules_are_those_of_the_registry() -> None:
    import minnow.optimizer.pipeline  # noqa: F401  (registers them)
    from minnow.cli._complete import rule_names
    from minnow.optimizer.rewrite import passes, rules

    assert rule_names() == sorted({**rules, **passes})


def test_there_is_a_script_for_every_shell_that_can_be_named() -> None:
    from minnow.cli._complete import SHELLS
    from minnow.cli.completion import command

    assert list(command.params[0].type.choices) == list(SHELLS)


@pytest.mark.parametrize("word", ["con", "convert --passes fuse_", "benchmark --against m", "convert x -O"])
def test_nothing_big_is_imported(word: str) -> None:
    lines = (
        "import json, sys\nfrom minnow.cli._app import run\nrun([])\nsys.stderr.write(json.dumps(list(sys.modules)))"
    )
    environment = {**ENVIRONMENT, "_MNNCONVERT_COMPLETE": "bash_complete",
                   "_MNNCONVERT_COMPLETE_LINE": f"mnnconvert {word}"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout
    assert not {"numpy", "rich", "networkx", "minnow.schema.ir", "logging"} & set(json.loads(done.stderr))


def test_what_cannot_be_completed_is_silent() -> None:
    environment = {**ENVIRONMENT, "_MNNCONVERT_COMPLETE": "tcsh_complete"}
    done = subprocess.run([BIN / "mnnconvert"], capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


# --- real shells -----------------------------------------------------------------------------------------------------

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(mnnconvert completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'eval "$(mnnconvert completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "mnnconvert completion fish | source"),
}


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.outer, inner = pty.openpty()
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        environment = {**ENVIRONMENT, **home, "TERM": "xterm", "COLUMNS": "200", "PS1": "> "}
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, cwd=folder, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # fish wants to control its terminal
        )  # fmt: skip
        os.close(inner)

    def press(self, keys: str) -> None:
        os.write(self.outer, keys.encode())

    def until(self, done: Path, seconds: float = 60) -> None:
        """Reads what is shown until a file exists."""
        end = time.monotonic() + seconds
        shown = b""
        while not done.exists():
            assert time.monotonic() < end, shown.decode(errors="replace")
            if select.select([self.outer], [], [], 0.05)[0]:
                try:
                    shown += os.read(self.outer, 65536)
                except OSError:  # the shell has ended
                    pytest.fail(shown.decode(errors="replace"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.outer)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_in_a_real_shell(shell: str, folder: Path, tmp_path: Path) -> None:
    """The shell calls a program that keeps its arguments, in place of the command, once the line is complete."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command, switch_on = SHELLS[shell]
    lines = {
        "mnnconvert conv\tmy\t": ["convert", "my net.tflite"],
        "mnnconvert convert my\\ n\t": ["convert", "my net.tflite"],
        "mnnconvert run n\t": ["run", "net.MNN"],
        "mnnconvert check a\t": ["check", "a:b.pb"],
        "mnnconvert convert --target=mi\t": ["convert", "--target=minnow"],
        "mnnconvert benchmark --against openvino,onn\t": ["benchmark", "--against", "openvino,onnxruntime"],
    }
    program = tmp_path / "mnnconvert"
    program.write_text(
        f"#!{sys.executable}\nimport os, subprocess, sys, json, pathlib\n"
        f"if '_MNNCONVERT_COMPLETE' in os.environ: os.execv({str(BIN / 'mnnconvert')!r}, sys.argv)\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "number = len(list(folder.glob('*.json')))\n"
        "(folder / 'part').write_text(json.dumps(sys.argv[1:]))\n"
        "(folder / 'part').rename(folder / f'{number}.json')\n"
    )
    program.chmod(0o755)
    terminal = Terminal(command, folder)
    try:
        ready = tmp_path / "ready"
        terminal.press(f"{switch_on}; PATH={tmp_path}:$PATH; touch {ready}\n" if shell != "fish" else
                       f"{switch_on}; set PATH {tmp_path} $PATH; touch {ready}\n")  # fmt: skip
        terminal.until(ready)
        for number, (line, want) in enumerate(lines.items()):
            first, _, rest = line.partition("\t")
            terminal.press(f"{first}\t")
            time.sleep(1)
            if rest:
                terminal.press(rest)
                time.sleep(1)
            terminal.press("\n")
            told = tmp_path / f"{number}.json"
            terminal.until(told)
            assert json.loads(told.read_text()) == want
    finally:
        terminal.close()
