"""What is said in another form is seen by the rules all the same, down to the last node."""

from __future__ import annotations

import pytest
from rewriting import assert_same_numbers, read

from minnow.optimizer import optimize
from minnow.schema.ir import Model

_X = "f32[1,1,2,3]"
_W = "f32[3,3](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)"
_CONV = "{{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}}"

CASES = {
    "sigmoid of a product": (
        ["%a: {x} = Mul(%x, f32[](-1.0))", "%b: {x} = Exp(%a)", "%c: {x} = Add(%b, f32[](1.0))",
         "%y: {x} = Div(f32[](1.0), %c)"], ["Sigmoid"]),
    "sigmoid of a difference": (
        ["%a: {x} = Sub(f32[](0.0), %x)", "%b: {x} = Exp(%a)", "%c: {x} = Add(f32[](1.0), %b)",
         "%y: {x} = Reciprocal(%c)"], ["Sigmoid"]),
    "slope chosen by a number in front": (
        ["%a: bool[1,1,2,3] = Less(f32[](0.0), %x)", "%b: {x} = Mul(%x, f32[](0.25))", "%y: {x} = Where(%a, %x, %b)"],
        ["LeakyRelu"]),
    "comparison of opposites": (
        ["%a: {x} = Neg(%x)", "%b: {x} = Mul(f32[](-1.0), %z)", "%c: bool[1,1,2,3] = LessOrEqual(%a, %b)",
         "%y: {x} = Cast(%c) {{to=f32}}"], ["GreaterOrEqual", "Cast"]),
    "opposite of a quotient": (
        ["%a: {x} = Div(f32[](3.0), %x)", "%y: {x} = Neg(%a)"], ["Div"]),
    "opposite of an opposite quotient": (
        ["%n: {x} = Neg(%x)", "%a: {x} = Div(%n, f32[](3.0))", "%y: {x} = Neg(%a)"], ["Div"]),
    "a layer's opposite": (
        ["%a: f32[1,1,2,2] = MatMul(%x, f32[3,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0))",
         "%b: f32[1,1,2,2] = Add(%a, f32[2](0.5, 0.25))", "%y: f32[1,1,2,2] = Neg(%b)"], ["Linear"]),
    "the opposite in front of a layer": (
        ["%n: {x} = Neg(%x)", "%y: f32[1,1,2,2] = MatMul(%n, f32[3,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0))"], ["Linear"]),
    "a convolution's opposite": (
        [         f"%a: f32[1,1,4,5] = Conv(%x, f32[1,1,1,1](2.0), f32[1](3.0)) {_CONV}",
         "%y: f32[1,1,4,5] = Neg(%a)"],
        ["Conv"]),
    "the opposite in front of a convolution": (
        ["%n: {x} = Mul(%x, f32[](-1.0))", f"%y: f32[1,1,4,5] = Conv(%n, f32[1,1,1,1](2.0)) {_CONV}"], ["Conv"]),
    "swish between layers": (
        [f"%i: {{x}} = MatMul(%x, {_W})", "%b: {x} = Add(%i, f32[3](0.5, 0.25, 1.0))",
         "%k: {x} = Mul(%b, f32[](1.702))",
         "%s: {x} = Sigmoid(%k)", "%g: {x} = Mul(%b, %s)", f"%y: {{x}} = MatMul(%g, {_W})"], ["Linear", "Linear"]),
    "swish behind a layer": (
        [f"%b: {{x}} = MatMul(%x, {_W})", "%k: {x} = Mul(%b, f32[](1.702))", "%s: {x} = Sigmoid(%k)",
         "%g: {x} = Mul(%b, %s)", "%y: {x} = Softmax(%g)"], ["Linear", "Mul", "Softmax"]),
    "swish in front of a layer": (
        ["%k: {x} = Mul(%x, f32[](-1.702))", "%e: {x} = Exp(%k)", "%c: {x} = Add(%e, f32[](1.0))",
         "%g: {x} = Div(%x, %c)", f"%y: {{x}} = MatMul(%g, {_W})"], ["Mul", "Silu", "Linear"]),
    "gate of a quotient": (
        ["%n: {x} = Neg(%x)", "%k: {x} = Div(%n, f32[](1.5))", "%e: {x} = Exp(%k)", "%c: {x} = Add(%e, f32[](1.0))",
         "%y: {x} = Div(%z, %c)"], ["Div", "Sigmoid", "Mul"]),
    "gate of an exponential": (
        ["%e: {x} = Exp(%x)", "%c: {x} = Add(%e, f32[](1.0))", "%y: {x} = Reciprocal(%c)"], ["Neg", "Sigmoid"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_form_comes_to_the_same(name: str) -> None:
    lines, left = CASES[name]
    text = f"graph g(%x: {_X}, %z: {_X}) {{ {' '.join(line.format(x=_X) for line in lines)} return %y }}"
    before, after = read(text), read(text)
    optimize(Model(after), passes=["-fuse_elementwise"], target="minnow")
    assert [node.op for node in after] == left
    assert_same_numbers(before, after)
