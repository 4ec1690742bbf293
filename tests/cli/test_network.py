"""No command needs the network or tries to reach it, and neither does any package that a command makes use of.

Each runs in a network namespace of its own, where no other machine exists; strace records every call of the kernel that
has to do with the network, of all processes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples/digits/digits.onnx"
PLAN = """\
store = "store"
output = "out/{name}-{variant}.mnn"
[models.digits]
source = "digits.onnx"
[variants.own]
target = "minnow"
"""
_FORMATS = ("script.pt", "archive.pt2", "network.keras", "network.h5", "saved_model", "network.tflite", "frozen.pb",
            "net.prototxt", "digits.onnx")  # fmt: skip
_NEEDS = {"script.pt": ["--input", "input=2x4", "--trust"]}
_PROGRAM = [sys.executable, "-c", "from minnow.cli import main; main()"]
_OUTSIDE = re.compile(r"\b(connect|sendto|sendmsg|sendmmsg|bind)\(.*sa_family=AF_INET")
_LOOPBACK = re.compile(r'\bbind\(.*"::1"')
"""TensorFlow finds out at its start whether the machine has IPv6: it binds a socket to itself, and closes it."""

_PEERS = [name for name, package in {"onnxruntime": "onnxruntime", "openvino": "openvino", "ncnn": "ncnn"}.items()
          if importlib.util.find_spec(package)]  # fmt: skip
"""Runtimes that are installed, of those that `benchmark` compares with and that read this model."""

COMMANDS = {
    **{f"convert {name}": ["convert", name, "-o", "made.mnn", *_NEEDS.get(name, ())] for name in _FORMATS},
    **{f"check {name}": ["check", name, *_NEEDS.get(name, ())] for name in _FORMATS},
    "verify": ["verify", "digits.onnx", "digits.mnn"],
    "run": ["run", "digits.mnn"],
    "benchmark": ["benchmark", "digits.mnn", "--against", ",".join(_PEERS)],
    "inspect": ["inspect", "digits.mnn"],
    "inspect source": ["inspect", "digits.onnx"],
    "optimize": ["optimize", "digits.mnn", "-o", "made.mnn"],
    "quantize": ["quantize", "digits.mnn", "-o", "made.mnn"],
    "report": ["report", "digits.mnn", "digits.onnx", "-o", "report.html"],
    "ops": ["ops"],
    "ci": ["ci", "--config", "plan.toml"],
    "diff": ["diff", "base.json", "base.json"],
    "fleet": ["fleet", "plan.toml"],
    "completion": ["completion", "bash"],
}


def traced(command: list[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The command without network, and what it has asked of the kernel that has to do with it."""
    log = folder / "network.log"
    strace = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=network", "-e", "signal=none", "-o", str(log)]
    isolated = ["unshare", "--map-root-user", "--net"]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([*strace, *isolated, *command], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False, timeout=900)  # fmt: skip
    calls = log.read_text().splitlines()
    log.unlink()
    return done, [line for line in calls if _OUTSIDE.search(line) and not _LOOPBACK.search(line)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of each format, made by the libraries that define these."""
    path = tmp_path_factory.mktemp("network")
    places = [ROOT / "tests" / "converter" / "caffe"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    worker = ROOT / "tests/package/formats_worker.py"
    subprocess.run([sys.executable, worker, path], env=environment, capture_output=True, check=True)
    shutil.copy(DIGITS, path)
    (path / "plan.toml").write_text(PLAN)
    quiet = [*_PROGRAM, "convert", "digits.onnx", "-o", "digits.mnn", "--no-verify"]
    subprocess.run(quiet, cwd=path, capture_output=True, check=True)
    listed = [*_PROGRAM, "ci", "--config", "plan.toml", "--format", "json"]
    (path / "base.json").write_bytes(subprocess.run(listed, cwd=path, capture_output=True, check=True).stdout)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_asks_the_network(name: str, folder: Path) -> None:
    done, calls = traced([*_PROGRAM, *COMMANDS[name]], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls == []


@pytest.mark.slow
def test_asking_is_seen(tmp_path: Path) -> None:
    """The test above can fail."""
    program = "import socket\nsocket.socket().connect(('192.0.2.1', 80))"
    done, calls = traced([sys.executable, "-c", program], tmp_path)
    assert "unreachable" in done.stderr
    assert len(calls) == 1
