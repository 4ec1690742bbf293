"""What the commands import, each in a process of its own: a name that turns up here is time that every start pays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/digits/digits.onnx"
PROGRAM = """
import json, sys
from minnow.cli._app import run
code = run(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""
HEAVY = ("numpy", "onnx", "google.protobuf", "networkx", "flatbuffers", "tflite", "tensorflow", "torch", "rich")
GRAPHS = ("minnow.schema.ir", "minnow.schema.registry", "minnow.schema.ops")


def started(*args: str) -> tuple[int, list[str]]:
    """The exit code of a command whose output is piped, and the modules that it has imported."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, *args], capture_output=True, text=True, timeout=60)
    code, modules = json.loads(run.stderr.splitlines()[-1])
    return code, modules


def within(modules: list[str], *packages: str) -> list[str]:
    return [m for m in modules if any(m == p or m.startswith(p + ".") for p in packages)]


def test_nothing_big_is_imported_for_help() -> None:
    code, modules = started("--help")
    assert code == 0
    assert not within(
        modules,
        *HEAVY,
        "minnow.schema.ir",
        "minnow.schema.registry",
        "minnow.schema.ops",
        "minnow.optimizer",
        "minnow.runtime",
    )
    assert not within(modules, "minnow.options"), "flags are made when a command needs them"


@pytest.mark.parametrize(
    "command", ["convert", "check", "inspect", "optimize", "quantize", "run", "verify", "benchmark", "report"]
)
def test_nothing_big_is_imported_for_a_missing_file(command: str, tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "new.mnn")]
    rest = {"optimize": output, "quantize": output, "verify": [str(EXAMPLE)]}.get(command, [])
    code, modules = started(command, str(tmp_path / "missing.onnx"), *rest)
    assert code == 6
    assert not within(
        modules,
        *HEAVY,
        "minnow.schema.ir",
        "minnow.schema.registry",
        "minnow.schema.ops",
        "minnow.optimizer",
        "minnow.runtime",
    )


def test_a_conversion_imports_the_frontend_of_its_format_only(tmp_path: Path) -> None:
    code, modules = started("convert", str(EXAMPLE), "--no-verify", "-o", str(tmp_path / "digits.mnn"))
    assert code == 0
    assert within(modules, "minnow.converter.onnx")
    others = (f"minnow.converter.{name}" for name in ("caffe", "tensorflow", "tflite", "torch"))
    assert not within(modules, *others, "minnow.runtime", "tflite", "tensorflow", "torch", "rich", "networkx")
