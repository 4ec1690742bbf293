"""Layers of quantized networks whose Relu is what saturation does anyway."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.optimizer import optimize
from minnow.schema.ir import Model
from minnow.schema.ir.text import parse
from minnow.schema.registry.interpreter import evaluate

ATTRS = "strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)"
GRAPH = """
graph g(%x: u8[1,2,2,2]) {{
  %a: i32[1,1,2,2] = ConvInteger(%x, i8[1,2,1,1](2, -3), u8[](1)) {{{attrs}}}
  %b: f32[1,1,2,2] = Cast(%a) {{to=f32}}
  %c: f32[1,1,2,2] = Mul(%b, f32[](0.25))
  %d: f32[1,1,2,2] = Relu(%c)
  %y: {to}[1,1,2,2] = QuantizeLinear(%d, f32[](1.0), {to}[]({zero})) {{to={to}}}
  return %y
}}
"""


@pytest.mark.parametrize(("to", "zero"), [("i8", -128), ("u8", 0)])
def test_relu_is_part_of_a_layer_whose_least_number_is_its_zero_point(to: str, zero: int) -> None:
    graph = parse(GRAPH.format(to=to, zero=zero, attrs=ATTRS))
    x = np.array([1, 90, 250, 3, 200, 0, 9, 40], np.uint8).reshape(1, 2, 2, 2)
    model = Model(graph)
    model.inputs = [(p.name, p.type) for p in graph.params]
    model.outputs = [("y", graph.outputs[0].type)]
    optimize(model, target="minnow")
    assert [n.op for n in model.graph] == ["QuantizedConv"]
    sums = 2.0 * (x[0, 0].astype(float) - 1) - 3.0 * (x[0, 1].astype(float) - 1)
    want = np.clip(np.rint(np.maximum(sums * 0.25, 0)) + zero, *((-128, 127) if to == "i8" else (0, 255)))
    np.testing.assert_array_equal(evaluate(model.graph, [x])[0][0, 0], want)
