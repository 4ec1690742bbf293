"""`mnnconvert convert --check-each` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrong_rules import WRONG, registered

import minnow
from minnow.cli._app import run
from minnow.optimizer.rewrite import rewrite, rules

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_a_right_pipeline_converts(tmp_path, capsys):
    assert run(["convert", str(DIGITS), "-o", str(tmp_path / "d.mnn"), "--check-each"]) == 0
    assert "PASS" in capsys.readouterr().out


def test_the_python_function_has_it_too(tmp_path):
    report = minnow.convert(DIGITS, output=tmp_path / "d.mnn", check_each=True, verify=False, target="minnow")
    assert "check" in report.seconds
    assert not [text for text in report.notices if "check" in text]


def test_no_time_is_a_notice(tmp_path):
    report = minnow.convert(DIGITS, output=tmp_path / "d.mnn", check_each=True, check_limit=0, verify=False)
    assert any("--check-limit" in text for text in report.notices)


@pytest.fixture
def spoiled():
    """The pipeline with a rule that is wrong for the small network."""
    with registered(WRONG[0]):
        del rules[WRONG[0].name]

        @rewrite(lambda p, x: p.Relu(x))
        def spoil_relu(b, m):
            return b.LeakyRelu(m.x, alpha=0.1)

        spoil_relu.module = "minnow.optimizer.passes.cleanup.identity"
        yield
        del rules["spoil_relu"]


@pytest.mark.usefixtures("spoiled")
def test_a_wrong_rule_exits_4_and_is_named(tmp_path, capsys):
    options = ["-o", str(tmp_path / "d.mnn"), "--input", "image=1x1x8x8", "-O3", "--check-each"]
    assert run(["convert", str(DIGITS), *options]) == 4
    error = capsys.readouterr().err
    assert "identity:*, changes the outputs" in error
    assert "spoil_relu (4 times)" in error
    assert "FAIL  probability" in error
    assert f"mnnconvert debug bisect {DIGITS} --input=image=1x1x8x8 -O3` finds" in error
    assert list(tmp_path.iterdir()) == []
