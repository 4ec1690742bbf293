"""`mnnconvert debug bisect`: finds what is wrong in whatever way, and makes it small; says so where nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from random_graphs import model_of
from rewriting import read
from wrong_rules import WRONG, Wrong, registered

from minnow.bisection import bisect
from minnow.cli._app import run
from minnow.optimizer import optimize
from minnow.schema.mnn import decode, save

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(autouse=True)
def _only_what_a_user_has(monkeypatch):
    """Without the check of every step that all tests have."""
    monkeypatch.setattr("minnow.bisection.optimize", getattr(optimize, "__wrapped__", optimize))


def _file(text: str, folder: Path) -> Path:
    path = folder / "model.mnn"
    save(model_of(read(text)), path)
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", [False, True], ids=["reference", "engine"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_finds_what_is_wrong_and_makes_it_small(wrong: Wrong, engine: bool, tmp_path: Path) -> None:
    source, output = _file(wrong.text, tmp_path), tmp_path / "small.mnn"
    with registered(wrong):
        found = bisect(source, engine=engine, output=output)
        culprit = found.culprit
        assert culprit is not None
        assert culprit.name == wrong.name
        assert 0 < culprit.nodes <= 2
        assert f"{wrong.name}" not in culprit.before
        # The small model shows it again, by the command that is printed.
        words = culprit.reproduce.split()[1:]
        assert words[:2] == ["debug", "bisect"]
        assert run([*words, "-o", str(tmp_path / "again.mnn")]) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [*(f"{n}.{s}" for n in ("again", "small") for s in ("mnn", "npz", "txt")), "model.mnn"]
    )
    small = decode(output.read_bytes())
    assert len(small.graph) == culprit.nodes
    assert run(["debug", "bisect", str(output), "-o", str(tmp_path / "right.mnn")]) == 0


def test_a_right_pipeline_is_right(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--engine"], ["--target", "minnow"], ["-O3", "--input", "image=2x1x8x8"]):
        assert run(["debug", "bisect", str(DIGITS), *options]) == 0
        assert "rewrites changes the outputs" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_json_names_rule_node_and_origin(capsys, tmp_path):
    wrong = WRONG[0]
    source = _file(wrong.text, tmp_path)
    with registered(wrong):
        assert run(["debug", "bisect", str(source), "-o", str(tmp_path / "s.mnn"), "--format", "json"]) == 4
    culprit = json.loads(capsys.readouterr().out)["culprit"]
    assert culprit["name"] == wrong.name
    assert culprit["node"].startswith("Exp(")
    assert "'c'" in culprit["node"]
    assert culprit["place"].startswith("optimizer/passes/cleanup/identity.py:")
    assert "Exp" in culprit["before"]
    assert "Pow" in culprit["after"]


def test_the_first_of_several_wrong_rules_is_named(tmp_path):
    first, second = WRONG[0], WRONG[1]
    text = first.text.replace("return %f", "%g: f32[N,3] = Softmax(%f) {axis=1} return %g")
    source = _file(text, tmp_path)
    with registered(second), registered(first):
        found = bisect(source)
        assert found.culprit is not None
        names = {found.culprit.name}
        again = bisect(source, passes=[f"-{found.culprit.name}"])
        assert again.culprit is not None
        names.add(again.culprit.name)
        assert names == {first.name, second.name}
        assert bisect(source, passes=[f"-{n}" for n in names]).passed


def test_data_of_the_user_is_compared_on(tmp_path):
    """What is only wrong for some numbers is found with those."""
    source = _file("graph g(%x: f32[4]) { %a: f32[4] = Abs(%x) %y: f32[4] = Sin(%a) return %y }", tmp_path)
    np.savez(tmp_path / "positive.npz", x=np.linspace(0.5, 1, 4, dtype=np.float32))
    np.savez(tmp_path / "negative.npz", x=np.linspace(-1, 1, 4, dtype=np.float32))
    with registered(next(w for w in WRONG if w.name == "spoil_nan")):
        assert run(["debug", "bisect", str(source), "--data", str(tmp_path / "positive.npz")]) == 0
        assert run(["debug", "bisect", str(source), "--data", str(tmp_path / "negative.npz"), "-o",
                    str(tmp_path / "s.mnn")]) == 4  # fmt: skip


def test_wrong_calls(tmp_path, capsys):
    assert run(["debug", "bisect", str(tmp_path / "none.onnx")]) == 6
    assert run(["debug", "bisect", str(DIGITS), "--passes", "fuse_everything"]) == 2
    source = _file(WRONG[0].text, tmp_path)
    assert run(["debug", "bisect", str(source), "--input", "x=1x3"]) == 2
    assert run(["debug"]) == 2
    assert "bisect" in capsys.readouterr().err
