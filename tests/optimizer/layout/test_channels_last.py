"""Graphs with their channels last: transposes stay where the user has put inputs and outputs, and nowhere else."""

from __future__ import annotations

import pytest
from random_graphs import model_of
from rewriting import assert_same_numbers, read

from minnow.optimizer.pipeline import optimize

_TO, _FROM = "{perm=(0, 3, 1, 2)}", "{perm=(0, 2, 3, 1)}"
_W = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_WEIGHT = "f32[3,3,1,1](1.0, 2.0, 3.0, -4.0, -5.0, 6.0, 0.5, -0.5, 7.0)"
_ALL = "{axes=(1, 2), keepdims=False}"


def _between(*lines: str, y: str) -> str:
    """A convolution and what reads it, as %a, with channels last."""
    return (
        f"graph g(%x: f32[1,4,5,3]) {{ %t: f32[1,3,4,5] = Transpose(%x) {_TO} "
        f"%c: f32[1,3,4,5] = Conv(%t, {_WEIGHT}) {_W} %a: f32[1,4,5,3] = Transpose(%c) {_FROM} "
        f"{' '.join(lines)} return {y} }}"
    )


@pytest.mark.parametrize(
    ("transposes", "text"),
    [
        (2, _between("%y: f32[1,4,5,3] = PRelu(%a, f32[3](0.5, -0.5, 2.0))", y="%y")),
        (2, _between("%y: f32[1,4,5,3] = PRelu(%a, f32[1,1,3](0.5, -0.5, 2.0))", y="%y")),
        (2, _between("%y: f32[1,4,5,3] = PRelu(%a, f32[](0.5))", y="%y")),
        (2, _between("%y: f32[1,4,5,3] = PRelu(%a, f32[4,1,1](0.5, -0.5, 2.0, 1.0))", y="%y")),
        (1, _between(f"%y: f32[1,3] = ReduceMean(%a) {_ALL}", y="%y")),
        (1, _between("%y: f32[1,3] = ReduceMax(%a) {axes=(-3, -2), keepdims=False}", y="%y")),
        (1, _between("%y: f32[] = ReduceSum(%a) {keepdims=False}", y="%y")),
        (2, _between("%y: f32[1,4,3] = ReduceMin(%a) {axes=(2,), keepdims=False}", y="%y")),
        (1, _between("%y: i64[1,4,5] = ArgMax(%a) {axis=3, keepdims=False}", y="%y")),
        (1, _between("%y: i64[1,4,5] = ArgMax(%a) {axis=-1, keepdims=False, select_last_index=True}", y="%y")),
        (2, _between("%y: i64[1,5,3] = ArgMin(%a) {axis=1, keepdims=False}", y="%y")),
    ],
)
def test_transposes_left(transposes: int, text: str) -> None:
    before, after = read(text), read(text)
    model = model_of(after)
    optimize(model, 2)
    assert sum(node.op == "Transpose" for node in model.graph) == transposes
    assert_same_numbers(before, model.graph)
