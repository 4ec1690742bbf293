"""`mnnconvert benchmark --compare`: a ratio with an interval and a verdict, and errors before anything is timed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import minnow
from minnow.cli._app import run
from minnow.cli.benchmark import _comparison, _text
from minnow.runtime.benchmark.benchmark import Timing

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
QUICK = ["--no-profile", "--starts", "6", "--runs", "12"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    return path


def test_json_has_the_ratio_its_interval_and_the_samples(digits, tmp_path, capsys):
    shutil.copy(digits, tmp_path / "base.mnn")
    line = ["benchmark", str(digits), "--compare", str(tmp_path / "base.mnn"), *QUICK]
    assert run([*line, "--format", "json", "--samples"]) == 0
    own, base = json.loads(capsys.readouterr().out)
    assert [own["name"], base["name"]] == ["minnow", "baseline"]
    found = own["comparison"]
    assert found["baseline"] == str(tmp_path / "base.mnn") == base["model"]
    assert 0 < found["low"] <= found["ratio"] <= found["high"]
    assert found["ratio"] == pytest.approx(1 / base["ratio"])
    assert found["verdict"] in ("faster", "slower", "no difference shown")
    assert base["ratio_low"] <= base["ratio"] <= base["ratio_high"]
    for timing in (own, base):
        assert timing["starts"] == len(timing["samples"]) == 6
        runs = [s for start in timing["samples"] for r in start for s in r]
        assert len(runs) == 12
        assert min(runs) == pytest.approx(timing["min_s"], abs=1e-9)


def test_a_baseline_and_another_runtime_are_timed_together(digits, tmp_path, capsys):
    shutil.copy(digits, tmp_path / "base.mnn")
    line = ["benchmark", str(digits), "--compare", str(tmp_path / "base.mnn"), "--starts", "1", "--runs", "2"]
    assert run([*line, "--no-profile", "--against", "onnxruntime", "--source", str(DIGITS)]) == 0
    out = capsys.readouterr().out
    assert [row.split()[0] for row in out.splitlines()[2:5]] == ["minnow", "baseline", "onnxruntime"]
    assert "times as long as the baseline" in out


def test_a_table_shows_intervals_only_where_there_are_some():
    own = Timing("minnow", "1", min_s=0.001, median_s=0.002, p90_s=0.003, p99_s=0.004)
    base = Timing("baseline", "1", ratio=0.5, ratio_low=0.4, ratio_high=0.625)
    header, _, first, second = _text([own, base]).splitlines()
    assert header.split()[-2:] == ["95", "%"]
    assert "1.000  2.000  " in " ".join(first.split()).replace(" ", "  ")
    assert second.endswith("0.500  0.400 to 0.625")
    assert "%" not in _text([own])


def test_a_verdict_without_an_interval_says_what_it_needs():
    found = {"baseline": "b.mnn", "ratio": 1.5, "low": None, "high": None, "verdict": "no difference shown"}
    assert _comparison(found).endswith("for an interval at least 6 starts and 6 runs are needed")
    assert _comparison(found | {"low": 1.4, "high": 1.6, "verdict": "slower"}).endswith(
        "(95 %: 1.400 to 1.600): slower"
    )


def test_what_cannot_be_compared_is_refused(digits, tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] other) => (float[3] y) { y = Relu(other) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "other.onnx")
    minnow.convert(tmp_path / "other.onnx", output=tmp_path / "other.mnn", verify=False)
    for flag, value, code, message in (
        ("--compare", tmp_path / "missing.mnn", 6, "missing.mnn"),
        ("--compare", DIGITS, 6, "the baseline does not run"),
        ("--compare", tmp_path / "other.mnn", 2, "the baseline does not accept the inputs"),
        ("--compare-python", tmp_path / "python", 2, "there is no such Python interpreter"),
        ("--compare-python", shutil.which("true"), 2, "this Python interpreter cannot time a model"),
    ):
        assert run(["benchmark", str(digits), flag, str(value), *QUICK, "--format", "json"]) == code
        out, err = capsys.readouterr()
        assert message in json.dumps(json.loads(out)) + err
        assert "Traceback" not in err
