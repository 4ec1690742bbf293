"""Models whose inputs and outputs are sequences, on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from sequence_models import MODELS

COMMAND = Path(sys.executable).with_name("mnnconvert")


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sequence")
    text, _ = MODELS["insert and erase"]
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}'), path / "m.onnx")
    done = run("convert", path / "m.onnx", "-o", path / "m.mnn")
    assert done.returncode == 0, done.stderr
    assert "PASS  len(a)" in done.stdout
    return path


def test_inspect_says_what_they_are(folder: Path) -> None:
    assert "s: sequence(f32[*])" in run("inspect", folder / "m.mnn").stdout
    rows = json.loads(run("inspect", "--format", "json", folder / "m.mnn").stdout)["inputs"]
    assert rows[0] == {"name": "s", "dtype": "f32", "shape": None, "container": "sequence"}
    assert "container" not in rows[1]


def test_arrays_have_a_place_in_their_names(folder: Path) -> None:
    s = [np.float32([1, 2]), np.float32([[3]])]
    one = {"x": np.float32([9]), "i": np.array(1), "j": np.array(-1)}
    np.savez(folder / "in.npz", **one, **{f"s[{i}]": a for i, a in enumerate(s)})
    done = run("run", folder / "m.mnn", "--data", folder / "in.npz", "-o", folder / "out.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as out:
        assert sorted(out.files) == ["a[0]", "a[1]", "a[2]", "b[0]", "b[1]", "b[2]", "c[0]", "c[1]"]
        assert out["a[1]"].tolist() == [9]
        assert out["c[1]"].tolist() == [9]
    done = run("verify", folder / "m.onnx", folder / "m.mnn", "--data", folder / "in.npz")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  1 run" in done.stdout


def test_a_gap_and_a_shape_are_errors(folder: Path) -> None:
    np.savez(folder / "gap.npz", x=np.ones(1), i=np.array(0), j=np.array(0), **{"s[1]": np.ones(1)})
    done = run("run", folder / "m.mnn", "--data", folder / "gap.npz")
    assert done.returncode == 2
    assert "s[0]" in done.stderr
    done = run("convert", folder / "m.onnx", "-o", folder / "n.mnn", "--input", "s=2x3")
    assert done.returncode == 2
    assert "has no shape" in done.stderr
    assert not (folder / "n.mnn").exists()
    done = run("benchmark", folder / "m.mnn")
    assert done.returncode == 2
    assert "'s' is a sequence" in done.stderr
