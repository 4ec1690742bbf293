"""Folders of inputs and expected outputs as text: read and written, compared with MNN's converter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from models import mnn_flag_models as models
from oracles import mnn_converter, mnn_oracle

import minnow
from minnow.cli._app import run as run_cli


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file, with its source beside it."""
    folder = tmp_path_factory.mktemp("named")
    minnow.convert(models.named(folder / "n.onnx"), output=folder / "n.mnn", verify=False)
    return folder / "n.mnn"


def as_mnns_script(folder: Path, source: Path) -> Path:
    """A folder as MNN's scripts write it: with numpy.savetxt, and random inputs."""
    session = onnxruntime.InferenceSession(str(source))
    rng = np.random.default_rng(5)
    inputs = {
        i.name: rng.integers(0, 12, i.shape) if "int" in i.type else rng.uniform(0.1, 1.2, i.shape).astype(np.float32)
        for i in session.get_inputs()
    }
    outputs = [o.name for o in session.get_outputs()]
    arrays = {**inputs, **dict(zip(outputs, session.run(None, inputs), strict=True))}
    for name, array in arrays.items():
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, array.reshape(-1))
    rows = [{"name": name, "shape": list(array.shape)} for name, array in inputs.items()]
    (folder / "input.json").write_text(json.dumps({"inputs": rows, "outputs": outputs}))
    return folder


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return as_mnns_script(tmp_path / "folder", model.with_suffix(".onnx"))


def in_mnn(source: Path, folder: Path, *flags: str) -> str:
    line = ["-f", "ONNX", "--modelFile", source, "--MNNModel", folder.parent / "m.mnn", "--testdir", folder, *flags]
    return mnn_converter.convert(*line, folder=folder.parent)


def check(model: Path, folder: Path, *flags: str) -> int:
    return run_cli(["verify", str(model), "--testdir", str(folder), *flags])


def convert(model: Path, folder: Path, *flags: str) -> int:
    source, target = model.with_suffix(".onnx"), folder.parent / "c.mnn"
    line = ["-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), "--testdir", str(folder), *flags]
    return run_cli(line)


@mnn_oracle.needs_mnn
def test_a_folder_of_mnns_script_passes_here_and_there(model: Path, folder: Path, capsys: Any) -> None:
    assert "TEST_SUCCESS" in in_mnn(model.with_suffix(".onnx"), folder)
    assert check(model, folder) == 0
    assert "PASS  o/c.d" in capsys.readouterr().out
    assert convert(model, folder) == 0
    assert capsys.readouterr().out.endswith("thredhold is 0.01\nTEST_SUCCESS\n")


@mnn_oracle.needs_mnn
def test_a_folder_that_we_write_passes_here_and_there(model: Path, tmp_path: Path, capsys: Any) -> None:
    source, written = model.with_suffix(".onnx"), tmp_path / "written"
    assert run_cli(["verify", str(source), "--write-testdir", str(written)]) == 0
    assert sorted(str(p.relative_to(written)) for p in written.rglob("*.*")) == [
        "b.txt", "i.txt", "in/a:0.txt", "input.json", "o/c.d.txt", "o2.txt"
    ]  # fmt: skip
    assert check(model, written) == 0
    said = in_mnn(source, written)
    assert "TEST_SUCCESS" in said
    assert "Skip" not in said
    assert run_cli(["verify", str(source), str(model), "--write-testdir", str(written)]) == 0
    assert "PASS" in capsys.readouterr().out


@mnn_oracle.needs_mnn
def test_a_wrong_number_fails_here_and_there(model: Path, folder: Path, capsys: Any) -> None:
    numbers = np.loadtxt(folder / "o" / "c.d.txt")
    numbers[2] += 0.05 * np.abs(numbers).max()
    np.savetxt(folder / "o" / "c.d.txt", numbers)
    theirs = [row for row in in_mnn(model.with_suffix(".onnx"), folder).splitlines() if row.startswith("TESTERROR")]
    assert check(model, folder) == 4
    assert check(model, folder, "--testdir-tolerance", "0.06") == 0
    capsys.readouterr()
    assert convert(model, folder) == 4
    out = capsys.readouterr().out.splitlines()
    assert [row for row in out if row.startswith("TESTERROR")] == theirs
    assert "Converted Failed!" in out
    assert not (folder.parent / "c.mnn").exists()
    assert convert(model, folder, "--thredhold", "0.06") == 0
    assert "TEST_SUCCESS" in in_mnn(model.with_suffix(".onnx"), folder, "--thredhold", "0.06")


def test_values_in_the_description_and_outputs_by_position(model: Path, folder: Path) -> None:
    table = json.loads((folder / "input.json").read_text())
    for row in table["inputs"]:
        row["value"] = 2 if row["name"] == "b" else np.loadtxt(folder / f"{row['name']}.txt").tolist()
    numbers = np.loadtxt(folder / "in" / "a:0.txt")
    np.savetxt(folder / "0.txt", numbers + 2)
    (folder / "o" / "c.d.txt").unlink()
    (folder / "input.json").write_text(json.dumps(table))
    assert check(model, folder) == 0
    np.savetxt(folder / "0.txt", numbers - 2)
    assert check(model, folder) == 4


def test_an_output_without_a_file_is_named(model: Path, folder: Path, capsys: Any) -> None:
    (folder / "o2.txt").unlink()
    assert check(model, folder) == 0
    assert "not compared, since the folder does not have them: o2" in capsys.readouterr().out
    (folder / "o" / "c.d.txt").unlink()
    assert check(model, folder) == 6
    assert "no expected output" in capsys.readouterr().err


def changed(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        table = json.loads((folder / "input.json").read_text())
        change(table)
        (folder / "input.json").write_text(json.dumps(table))

    return apply


BROKEN: dict[str, tuple[Callable[[Path], Any], int]] = {
    "no description": (lambda f: (f / "input.json").unlink(), 6),
    "no text": (lambda f: (f / "b.txt").unlink(), 6),
    "words": (lambda f: (f / "b.txt").write_text("one two three"), 6),
    "bytes": (lambda f: (f / "b.txt").write_bytes(b"\xff\xfe"), 6),
    "too few": (lambda f: (f / "b.txt").write_text("1 2"), 6),
    "a fraction": (lambda f: (f / "i.txt").write_text("1 2 3 4.5"), 6),
    "too few results": (lambda f: (f / "o2.txt").write_text("1 2"), 4),
    "not a number": (lambda f: (f / "o2.txt").write_text("1 2 3 nan"), 4),
    "no JSON": (lambda f: (f / "input.json").write_text("{"), 6),
    "a list": (lambda f: (f / "input.json").write_text("[]"), 6),
    "a path": (changed(lambda t: t["inputs"][1].update(name="../../etc/x")), 2),
    "an output path": (changed(lambda t: t.update(outputs=["../x"])), 2),
    "unknown input": (changed(lambda t: t["inputs"][1].update(name="q")), 2),
    "a huge shape": (changed(lambda t: t["inputs"][1].update(shape=[1 << 20, 1 << 20])), 6),
    "a negative shape": (changed(lambda t: t["inputs"][1].update(shape=[-1])), 6),
    "another shape": (changed(lambda t: t["inputs"][1].update(shape=[1, 1, 3])), 2),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_folder_is_said(name: str, model: Path, folder: Path, capsys: Any) -> None:
    change, code = BROKEN[name]
    change(folder)
    assert check(model, folder) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.err or code == 4


def test_how_a_check_runs_is_read(model: Path, folder: Path, capsys: Any) -> None:
    config = folder.parent / "forward.json"
    config.write_text('{"backend": 0, "mode": 2, "precision": 1, "memory": 1, "hints": [[0, 20]]}')
    assert convert(model, folder, "--testconfig", str(config)) == 0
    said = capsys.readouterr().err
    assert "memory of --testconfig" in said
    assert "hints of --testconfig" in said
    for text, code in (('{"backend": 3}', 3), ('{"precision": 9}', 2), ('{"threads": 2}', 2), ("[]", 6), ("{", 6)):
        config.write_text(text)
        assert convert(model, folder, "--testconfig", str(config)) == code
    assert convert(model, folder, "--testconfig", str(folder / "none")) == 6


def test_verify_needs_a_file_to_compare_with(model: Path, capsys: Any) -> None:
    assert run_cli(["verify", str(model)]) == 2
    assert "--testdir" in capsys.readouterr().err
