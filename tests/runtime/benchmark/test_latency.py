"""Comparisons with a baseline: what is decided from samples, and the protocol with real processes."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import minnow
from minnow.options.run import RunOptions
from minnow.runtime.benchmark import latency, turns
from minnow.runtime.benchmark.footprint import measure_footprint
from minnow.runtime.benchmark.latency import compare_latency
from minnow.runtime.benchmark.process import ContestantProcess
from minnow.runtime.benchmark.turns import Baseline, Entry, Turns
from minnow.runtime.verify.samples import random_inputs
from minnow.schema.errors import ModelError, UsageError

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
FEW = {"starts": 6, "rounds": 1, "seconds": 1e-4, "retries": 0}


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False)
    return path


# --- decisions -----------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch):
    """Replaces the processes: the n-th attempt has the n-th of these ratios, with noise of so many percent."""

    def set_to(*ratios: float, noise: float = 0.01) -> None:
        rng, left = np.random.default_rng(1), list(ratios)

        def add(self, starts, rounds, seconds):
            ratio = left.pop(0)
            for samples, factor in zip(self.samples, (ratio, 1.0), strict=True):
                times = factor * np.exp(rng.normal(0, noise, (starts, 1, 1)) + np.zeros((starts, rounds, 3)))
                samples.extend(times.tolist())

        monkeypatch.setattr(latency._Measurement, "add", add)

    return set_to


def decided(limit: float = 1.1, retries: int = 2) -> latency.LatencyComparison:
    return compare_latency(Path("m.mnn"), Baseline(Path("b.mnn")), limit, retries, inputs={})


def test_a_ratio_below_the_limit_needs_one_attempt(recorded):
    recorded(1.02)
    found = decided()
    assert (found.breached, found.inconclusive, found.attempts) == (False, False, 1)
    assert found.high < 1.1
    assert "within the limit of 1.1" in str(found)


def test_a_breach_is_measured_again_before_it_is_said(recorded):
    recorded(1.3, 1.3)
    found = decided()
    assert (found.breached, found.attempts, found.verdict) == (True, 2, "slower")
    assert found.low > 1.1
    assert len(found.samples) == len(found.baseline_samples) == 20, "the samples of both attempts count"
    assert "above the limit" in str(found)


def test_a_breach_that_does_not_come_again_is_none(recorded):
    recorded(1.15, 1.0, 1.0)
    found = decided()
    assert not found.breached
    assert found.attempts > 1


def test_without_retries_the_first_attempt_counts(recorded):
    recorded(1.3)
    found = decided(retries=0)
    assert (found.breached, found.attempts) == (True, 1)


def test_a_wide_interval_is_called_inconclusive(recorded):
    recorded(1.1, 1.1, 1.1, noise=0.3)
    found = decided()
    assert (found.breached, found.inconclusive, found.attempts) == (False, True, 3)
    assert found.width > 0.1
    assert "inconclusive, the limit of 1.1 is within the interval" in str(found)


def test_without_a_limit_there_is_a_verdict_only(recorded):
    recorded(0.8)
    found = decided(math.inf)
    assert (found.breached, found.attempts, found.verdict) == (False, 1, "faster")
    values = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert values["limit"] is None
    assert values["ratio"] == pytest.approx(0.8, rel=0.05)
    assert values["low"] < values["ratio"] < values["high"] < 1
    assert values["seconds"] == pytest.approx(0.8, rel=0.1)
    assert np.shape(values["samples"]) == (10, 6, 3)


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": float("nan")}, {"retries": -1}, {"starts": 5}, {"rounds": 0}]
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(UsageError):
        compare_latency(Path("m.mnn"), Baseline(Path("b.mnn")), inputs={}, **wrong)


def test_turns_alternate():
    """A B, B A: and the next start begins with the other one."""
    seen = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def time(self, runs, warm_up):
            seen.append(self.name)
            return [0.1] * runs

    Turns([Fake("a"), Fake("b")], [{}, {}], range(2)).time([3] * 4)
    assert "".join(seen) == "abbaabba"
    seen.clear()
    Turns([Fake("a"), Fake("b")], [{}, {}], range(2)[::-1]).time([3] * 2)
    assert "".join(seen) == "baab"


# --- real processes ------------------------------------------------------------------------------------------


def test_a_model_beside_itself(digits, tmp_path):
    other = tmp_path / "other.mnn"
    other.write_bytes(digits.read_bytes())
    found = compare_latency(digits, Baseline(other), 50, **FEW)
    assert (found.breached, found.attempts) == (False, 1)
    assert 0 < found.low <= found.ratio <= found.high < 50
    assert found.version == found.baseline_version == minnow.__version__
    sizes = [[[len(r) for r in start] for start in s] for s in (found.samples, found.baseline_samples)]
    assert sizes[0] == sizes[1]
    assert [len(start) for start in sizes[0]] == [1] * 6
    assert str(other) in found.baseline


def test_a_baseline_of_another_runtime(digits):
    import onnxruntime

    found = compare_latency(digits, Baseline(DIGITS, "onnxruntime"), **FEW)
    assert found.baseline_version == onnxruntime.__version__
    assert found.seconds > 0 < found.baseline_seconds
    with pytest.raises(UsageError, match="unknown runtime 'bogus'"):
        compare_latency(digits, Baseline(DIGITS, "bogus"), **FEW)
    with pytest.raises(UsageError, match=r"needs a \.onnx file"):
        compare_latency(digits, Baseline(runtime="onnxruntime"), **FEW)


def environment(folder: Path, package: str) -> Path:
    """An interpreter that finds a package `minnow` of its own: a virtual environment with another build."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexec \"{sys.executable}\" -c '{package}'\n")
    python.chmod(0o755)
    return python


OLD = r"""
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    answer = {}
    if asked["do"] == "load":
        assert set(asked["session"]) <= {"threads"}, asked["session"]
        answer = {"version": "0.0.9", "load_s": 0.5, "first_s": 0.25}
    if asked["do"] == "time":
        answer = {"samples": [1e-3] * asked["runs"]}
    print(json.dumps(answer), flush=True)
""".replace('"', '\\"').replace('\\"', '"')


def test_an_older_build_answers(digits, tmp_path):
    """It knows neither the greeting nor options that are newer than it is."""
    found = compare_latency(digits, Baseline(python=environment(tmp_path, OLD)), **FEW)
    assert found.baseline_version == "0.0.9"
    assert found.baseline_seconds == 1e-3
    assert found.seconds != 1e-3


def test_the_other_interpreter_runs_its_own_build(digits, tmp_path, monkeypatch):
    """Neither the folder nor the variables of this process lead it to this build."""
    look = 'import os, sys; sys.exit("at " + os.getcwd() + " " + os.environ.get("PYTHONPATH", "-"))'
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(ROOT)
    with pytest.raises(UsageError) as e:
        compare_latency(digits, Baseline(python=environment(tmp_path, look)), **FEW)
    assert str(ROOT) not in e.value.why
    assert e.value.why.endswith(" -")


@pytest.mark.parametrize(
    ("package", "why"),
    [
        ('import sys; sys.exit("No module named minnow")', "No module named minnow"),
        ('print("hello")', "not one of a worker"),
        ("print([1])", "not one of a worker"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("pass", "ended with status 0"),
    ],
)
def test_an_interpreter_without_a_build_is_refused(digits, tmp_path, package, why):
    with pytest.raises(UsageError, match="this Python interpreter cannot time a model") as e:
        compare_latency(digits, Baseline(python=environment(tmp_path, package)), **FEW)
    assert why in e.value.why
    assert e.value.where.endswith("bin/python")
    assert "install a build of Minnow" in e.value.hint


def test_an_interpreter_that_does_not_answer_is_refused(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("minnow.runtime.benchmark.process._PATIENCE", 0.1)
    with pytest.raises(UsageError) as e:
        compare_latency(digits, Baseline(python=environment(tmp_path, "import time; time.sleep(60)")), **FEW)
    assert e.value.why == "it has not answered within 0.1 s"


def test_a_comparison_with_the_same_build_is_refused(digits):
    """In a CI job that is a mistake: the environment of the base branch holds the build of the change."""
    with pytest.raises(UsageError, match="has the same build of Minnow") as e:
        compare_latency(digits, Baseline(python=Path(sys.executable)), **FEW)
    assert "runtime/benchmark" in e.value.why


def test_an_interpreter_that_is_not_there_is_refused(digits, tmp_path):
    with pytest.raises(UsageError, match="no such Python interpreter"):
        compare_latency(digits, Baseline(python=tmp_path / "bin" / "python"), **FEW)


def test_inputs_that_do_not_fit_the_baseline_are_refused(digits, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] other) => (float[3] y) { y = Relu(other) }'
    )
    onnx.save(model, tmp_path / "other.onnx")
    minnow.convert(tmp_path / "other.onnx", output=tmp_path / "other.mnn", verify=False)
    with pytest.raises(UsageError, match="the baseline does not accept the inputs") as e:
        compare_latency(digits, Baseline(tmp_path / "other.mnn"), **FEW)
    assert e.value.where == str(tmp_path / "other.mnn")
    assert "no input 'image'" in e.value.why
    (tmp_path / "other.mnn").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="the baseline does not run"):
        compare_latency(digits, Baseline(tmp_path / "other.mnn"), **FEW)


def test_a_process_that_dies_is_told_with_its_last_words(digits, tmp_path):
    process = ContestantProcess("minnow", str(tmp_path), None, {})
    try:
        assert process.ask(do="nothing that exists") == {}
        assert process.error == ""
        assert process.ask(do="hello")["protocol"] == 1
        os.kill(process._process.pid, 9)
        assert process.time(1, 1) == []
        assert "signal 9" in process.error
        assert process.finish() == {}
    finally:
        process.close()


# --- one file ------------------------------------------------------------------------------------------------


def test_the_footprint_is_that_of_the_engine(digits):
    found = measure_footprint(digits, loads=1)
    session = minnow.load(digits, threads=1)
    session.run(random_inputs(digits))
    stats = session.stats
    assert {name: value for name, value in found.as_dict().items() if name in stats} == {
        name: value for name, value in stats.items() if name != "threads"
    }
    assert found.peak_bytes > found.idle_bytes > 1e6
    assert found.load_s > 0 < found.first_s


def test_the_footprint_depends_on_the_shapes(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 64] x) => (float[n, 64] y) { h = Sin(x)  y = Cos(h) }'
    )
    onnx.save(model, tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", verify=False)
    arena = [
        measure_footprint(tmp_path / "m.mnn", inputs={"x": np.ones((n, 64), np.float32)}, loads=1).arena_bytes
        for n in (1, 4096)
    ]
    assert arena[1] > 10 * arena[0] > 0
    with pytest.raises(UsageError, match="the model does not accept the inputs"):
        measure_footprint(tmp_path / "m.mnn", inputs={"x": np.ones((1, 3), np.float32)}, loads=1)
    options = RunOptions(threads=1, max_memory=1 << 10)
    with pytest.raises(ModelError, match="max_memory"):
        measure_footprint(tmp_path / "m.mnn", inputs={"x": np.ones((4096, 64), np.float32)}, session=options, loads=1)


def test_an_entry_names_what_it_compares_with(digits):
    assert Baseline(Path("b.mnn"), python=Path("venv/bin/python")).name == "b.mnn, venv/bin/python"
    assert Baseline(Path("b.onnx"), "onnxruntime").name == "onnxruntime, b.onnx"
    assert Baseline().name == "itself"
    assert Baseline(python=Path("p")).entry(digits) == Entry("minnow", digits, Path("p"))
    assert turns.STARTS >= 6
