"""The comparison after every step: it finds what is wrong, and nothing where all is right."""

from __future__ import annotations

import numpy as np
import pytest
from proving import is_small
from random_graphs import model_of
from rewriting import read
from wrong_rules import WRONG, Wrong, registered

from minnow.optimizer import optimize
from minnow.optimizer.pipeline import optimize as unchecked
from minnow.optimizer.rewrite import Trace
from minnow.runtime.verify.proof import Proof, StepCheck
from minnow.schema.errors import MinnowError, VerifyError
from minnow.schema.ir import Model, Value

_plain = getattr(unchecked, "__wrapped__", unchecked)  # without the check that all tests have


def _model(text: str) -> Model:
    return model_of(read(text))


def _checked(model: Model, level: int = 2, seconds: float = 60.0) -> StepCheck:
    log = Trace()
    check = StepCheck(model, log.hits, seconds=seconds, bisect="mnnconvert debug bisect")
    _plain(model, level, log=log, check=check)
    check.finish(model)
    return check


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_a_wrong_rule_ends_it_and_is_named(wrong: Wrong) -> None:
    with registered(wrong), pytest.raises(MinnowError) as caught:
        _checked(_model(wrong.text))
    assert wrong.name in str(caught.value)
    if wrong.name == "spoil_by_raising":
        assert caught.value.exit_code == 1
        assert "KeyError" in str(caught.value)
    else:
        assert isinstance(caught.value, VerifyError)
        assert "debug bisect" in caught.value.hint


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_without_it_every_step_is_right(wrong: Wrong) -> None:
    assert _checked(_model(wrong.text)).checked > 0


def test_all_tests_have_the_check() -> None:
    assert optimize is not _plain
    with registered(WRONG[0]), pytest.raises(VerifyError, match="changes the outputs"):
        optimize(_model(WRONG[0].text))


def test_what_there_was_no_time_for_is_compared_at_the_end() -> None:
    model = _model(WRONG[0].text)
    log = Trace()
    check = StepCheck(model, log.hits, seconds=0)
    _plain(model, 2, log=log, check=check)
    assert check.checked == 0
    assert "identity:*" in check.finish(model)
    with registered(WRONG[0]), pytest.raises(VerifyError, match="one of the last steps"):
        _checked(_model(WRONG[0].text), seconds=0)


def test_types_may_change_as_long_as_the_numbers_stay() -> None:
    text = """graph g(%x: i64[N], %w: f16[4,2], %t: bool[N]) {
      %a: f16[N,2] = Gather(%w, %x)
      %b: i64[N] = Add(%x, i64[](1))
      %c: bool[N] = And(%t, %t)
      return %a, %b, %c
    }"""
    model = _model(text)
    check = _checked(model)
    assert check.checked > 0
    assert [str(p.type.dtype) for p in model.graph.params] != ["i64", "f16", "bool"]


def test_open_extents_are_small_and_differ() -> None:
    proof = Proof(_model("graph g(%x: f32[N,T,D]) { %y: f32[N,T,D] = Exp(%x) return %y }"))
    first, second = (c.inputs["x"].shape for c in proof.candidates)
    assert len(set(first)) == 3
    assert second == (1, 1, 1)


def test_nan_where_there_was_none_is_a_difference_and_where_it_was_is_not() -> None:
    model = _model("graph g(%x: f32[64]) { %a: f32[64] = Log(%x) %y: f32[64] = Neg(%a) return %y }")
    proof = Proof(model, data=[{"x": np.linspace(-1, 1, 64, dtype=np.float32)}])
    assert np.isnan(proof.numbers[0]["y0"]).any()
    assert proof.differences(model) == []
    proof.numbers[0]["y0"] = np.nan_to_num(proof.numbers[0]["y0"])
    (difference,) = proof.differences(model)
    assert "NaN" in difference.reason


def test_rounding_that_the_model_itself_makes_large_is_no_difference() -> None:
    """A sine of so large numbers turns their last bit into its third digit."""
    text = """graph g(%x: f32[N]) {
      %a: f32[N] = Mul(%x, f32[](3333.3333))
      %b: f32[N] = Sin(%a)
      return %b
    }"""
    model = _model(text)
    proof = Proof(model)
    node = next(iter(model.graph))
    moved = np.float32(3333.3333 * (1 + 3e-7))
    node.set_input(1, Value.constant(moved))
    assert proof.differences(model) == []
    node.set_input(1, Value.constant(np.float32(3350.0)))
    assert proof.differences(model) != []


def test_inputs_that_nothing_runs_on_prove_nothing() -> None:
    text = "graph g(%x: f32[N,2]) { %y: f32[?,7919] = Reshape(%x, i64[2](-1, 7919)) return %y }"
    with pytest.raises(VerifyError, match="nothing can be compared"):
        Proof(_model(text))


def test_big_graphs_are_left_alone_by_tests() -> None:
    assert not is_small(_model("graph g(%x: f32[1,512,512,4]) { %y: f32[1,512,512,4] = Exp(%x) return %y }"))
