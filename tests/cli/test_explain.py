"""`--explain RULE[@NODE]`: where a rule or pass was applied, why not elsewhere, and why it did not run at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from minnow.cli._app import run
from minnow.optimizer.pipeline import why_not_run
from minnow.optimizer.rewrite import passes, rules

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["fuse_conv_bn"], ["fuse_conv_bn: applied 4 times", "fuse_conv_bn at BatchNorm", "(onnx:", ": applied"]),
        (["fuse_conv_bn@no such node"], ["fuse_conv_bn@no such node: there is no BatchNorm of that name"]),
        (["fuse_silu"], ["fuse_silu: applied 0 times", "not applied, since the model has no Mul or Div"]),
        (["assign_layout"], ["assign_layout: applied 2 times", "assign_layout at Conv"]),
        (["eliminate_common"], ["eliminate_common: not applied, since there was nothing to change"]),
        (["sink_transposes@probability"], ["the pass leaves it as it is"]),
        (["fuse_silu", "-O1"], ["fuse_silu: it runs from -O2 on"]),
        (["fuse_silu", "--passes", "fuse_gelu"], ["fuse_silu: `--passes` leaves it out"]),
        (["legalize_mish", "--target", "minnow"], ["which `--target minnow` does not ask for"]),
    ],
)
def test_it_is_said(options, texts, tmp_path, capsys):
    assert run(["convert", str(DIGITS), "-o", str(tmp_path / "d.mnn"), "--no-verify", "--explain", *options]) == 0
    out = capsys.readouterr().out
    for text in texts:
        assert text in out, out


@pytest.mark.parametrize("option", ["--explain", "--passes"])
def test_names_that_are_nearly_right(option, tmp_path, capsys):
    assert run(["convert", str(DIGITS), "-o", str(tmp_path / "d.mnn"), option, "fuse_conv_bnn"]) == 2
    error = capsys.readouterr().err
    assert "fuse_conv_bn" in error.partition("try:")[2]
    assert list(tmp_path.iterdir()) == []


def test_every_rule_and_pass_runs_for_some_target():
    for name in (*rules, *passes):
        assert "" in (why_not_run(name, 3, target, ()) for target in ("mnn", "minnow")), name  # type: ignore[arg-type]
