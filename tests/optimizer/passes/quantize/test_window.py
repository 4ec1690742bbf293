"""Means of bytes and transposed convolutions of bytes, as layers of integers."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.optimizer import optimize
from minnow.schema.ir import Model
from minnow.schema.ir.text import parse
from minnow.schema.registry.interpreter import evaluate

WINDOW = "kernel=(3, 3), strides=(2, 1), pads=(1, 1, 1, 1), dilations=(1, 1), count_include_pad=True"
CASES = [
    (f"AveragePool(%a) {{{WINDOW}}}", (2, 3, 7, 9), (2, 3, 4, 9), "QuantizedConv"),
    ("GlobalAveragePool(%a)", (2, 5, 7, 7), (2, 5, 1, 1), "QuantizedConv"),
    # More ones than are made of a single one.
    ("GlobalAveragePool(%a)", (1, 1500, 7, 7), (1, 1500, 1, 1), "QuantizedConv"),
    ("GlobalAveragePool(%a)", (2, 5, 9, 8), (2, 5, 1, 1), "QuantizedMatMul"),
    ("GlobalAveragePool(%a)", (1, 4000, 8, 8), (1, 4000, 1, 1), "QuantizedMatMul"),
    ("GlobalAveragePool(%a)", (2, 5, 7), (2, 5, 1), "QuantizedMatMul"),
]


def _dims(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


@pytest.mark.parametrize("to", ["u8", "i8"])
@pytest.mark.parametrize(("call", "shape", "pooled", "op"), CASES)
def test_means_of_bytes_are_exact(call: str, shape: tuple[int, ...], pooled: tuple[int, ...], op: str, to: str) -> None:
    text = f"""graph g(%x: u8{_dims(shape)}) {{
      %a: f32{_dims(shape)} = DequantizeLinear(%x, f32[](0.07), u8[](93))
      %b: f32{_dims(pooled)} = {call}
      %y: {to}{_dims(pooled)} = QuantizeLinear(%b, f32[](0.031), {to}[](5)) {{to={to}}}
      return %y
    }}"""
    graph = parse(text)
    x = np.random.default_rng(len(shape)).integers(0, 256, shape).astype(np.uint8)
    before = evaluate(parse(text), [x])[0].astype(int)
    model = Model(graph)
    model.inputs = [(p.name, p.type) for p in graph.params]
    model.outputs = [("y", graph.outputs[0].type)]
    optimize(model, target="minnow")
    ops = [n.op for n in model.graph]
    assert op in ops
    assert not {"DequantizeLinear", "QuantizeLinear"} & set(ops)
    after = evaluate(model.graph, [x])[0].astype(int)
    # Of numbers that lie between two, floats may have chosen the other one.
    assert np.abs(after - before).max() <= 1
    assert (after != before).mean() < 0.02
