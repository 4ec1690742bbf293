"""`mnnconvert fleet`: a run, what the store has, reports, and wrong arguments."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from minnow.cli._app import run

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"
PLAN = """\
store = "store"
output = "out/{name}-{variant}.mnn"
[models.digits]
source = "digits.onnx"
[models.cut]
source = "cut.onnx"
[models.left]
source = "digits.onnx"
[[exclude]]
model = "left"
reason = "not today"
[variants.mnn]
[variants.side]
side_file = true
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(DIGITS, tmp_path / "digits.onnx")
    (tmp_path / "cut.onnx").write_bytes(DIGITS.read_bytes()[:-100])
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counts(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, int], int]:
    """The number of cells by status, and that of those from the store."""
    document = json.loads(capsys.readouterr().out)
    return document["counts"], sum(cell["cached"] for cell in document["cells"])


def test_a_plan_is_run_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {"passed": 2, "skipped": 2, "warning": 0, "failed": 0, "error": 2}
    assert run(["fleet", "plan.toml", "--status", "--format", "json"]) == 0
    assert counts(capsys) == ({**found, "passed": 0, "skipped": 6, "error": 0}, 0)
    assert run(["fleet", "plan.toml", "-j", "1", "--format", "json", "--report", "junit=report.xml"]) == 6
    assert counts(capsys) == (found, 0)
    assert "digits/side" in (folder / "report.xml").read_text()
    assert sorted(p.name for p in (folder / "out").glob("*.mnn*") if p.suffix != ".json") == [
        "digits-mnn.mnn", "digits-side.mnn", "digits-side.mnn.weight",
    ]  # fmt: skip
    assert run(["ci", "--config", "plan.toml", "--only", "digits", "--check", "-q"]) == 0
    assert run(["fleet", "plan.toml", "--format", "json"]) == 6
    assert counts(capsys) == (found, 4)
    assert run(["fleet", "plan.toml", "--status"]) == 0
    shown = capsys.readouterr().out
    assert "2 passed, 2 skipped, 2 error; 4 from the store" in shown
    assert "ERROR  cut/mnn" in shown
    for path in (folder / "store").rglob("*"):
        os.utime(path, (1, 1))
    assert run(["fleet", "plan.toml", "--only", "digits/mnn", "--gc"]) == 0
    assert "removed 5 files" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.toml"], "none.toml"),
        (["plan.toml", "--scheduler", "ray"], "unknown scheduler 'ray'"),
        (["plan.toml", "--only", "nothing"], "nothing"),
        (["plan.toml", "--report", "junit"], "needs a file"),
        (["plan.toml", "--store", "nosuch://x"], "nosuch"),
        (["plan.toml", "--jobs", "0"], "jobs"),
    ],
)
def test_wrong_arguments(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert run(["fleet", *arguments]) in (2, 6)
    assert said in capsys.readouterr().err
    assert not (folder / "store").exists()


def test_a_plan_without_a_store(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('store = "store"\n', ""))
    assert run(["fleet", "plan.toml"]) == 2
    assert "--store" in capsys.readouterr().err
    assert run(["fleet", "plan.toml", "--store", "other", "--status", "-q"]) == 0
    assert (folder / "other").is_dir()
