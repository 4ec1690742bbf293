"""Attention whose keys and values are bytes, with fewer heads than the queries: what the engine runs of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import minnow
from minnow.optimizer import optimize
from minnow.schema.ir import Model
from minnow.schema.ir.text import parse
from minnow.schema.mnn import encode

GRAPH = """
graph g(%q: f32[2,6,{s},4], %x: u8[2,2,{t},4], %z: u8[2,2,{t},4]) {{
  %kf: f32[2,2,{t},4] = DequantizeLinear(%x, f32[](0.02), u8[](120))
  %ku: f32[2,2,1,{t},4] = Unsqueeze(%kf) {{axes=(2,)}}
  %ke: f32[2,2,3,{t},4] = Expand(%ku, i64[5](2, 2, 3, {t}, 4))
  %kr: f32[2,6,{t},4] = Reshape(%ke, i64[4](2, 6, {t}, 4))
  %kq: u8[2,6,{t},4] = QuantizeLinear(%kr, f32[](0.02), u8[](120))
  %kd: f32[2,6,{t},4] = DequantizeLinear(%kq, f32[](0.02), u8[](120))
  %kt: f32[2,6,4,{t}] = Transpose(%kd) {{perm=(0, 1, 3, 2)}}
  %kb: u8[2,6,4,{t}] = QuantizeLinear(%kt, f32[](0.02), u8[](120))
  %k: f32[2,6,4,{t}] = DequantizeLinear(%kb, f32[](0.02), u8[](120))
  %s: f32[2,6,{s},{t}] = MatMul(%q, %k)
  %w: f32[2,6,{s},{t}] = Softmax(%s)
  %vf: f32[2,2,{t},4] = DequantizeLinear(%z, f32[](0.03), u8[](7))
  %vu: f32[2,2,1,{t},4] = Unsqueeze(%vf) {{axes=(2,)}}
  %ve: f32[2,2,3,{t},4] = Expand(%vu, i64[5](2, 2, 3, {t}, 4))
  %vr: f32[2,6,{t},4] = Reshape(%ve, i64[4](2, 6, {t}, 4))
  %vq: u8[2,6,{t},4] = QuantizeLinear(%vr, f32[](0.03), u8[](7))
  %v: f32[2,6,{t},4] = DequantizeLinear(%vq, f32[](0.03), u8[](7))
  %y: f32[2,6,{s},4] = MatMul(%w, %v)
  return %y
}}
"""


# As above, but the cache holds floats, which become integers behind the repetition.
FLOATS = GRAPH.replace("%x: u8", "%fx: f32").replace("%z: u8", "%fz: f32")
for name, step in (("k", "f32[](0.02), u8[](120)"), ("v", "f32[](0.03), u8[](7)")):
    source = {"k": "x", "v": "z"}[name]
    FLOATS = FLOATS.replace(f"  %{name}f: f32[2,2,{{t}},4] = DequantizeLinear(%{source}, {step})\n", "")
    FLOATS = FLOATS.replace(f"Unsqueeze(%{name}f)", f"Unsqueeze(%f{source})")


@pytest.mark.parametrize("text", [GRAPH, FLOATS], ids=["integers", "floats"])
@pytest.mark.parametrize(("s", "t"), [(1, 9), (5, 8)])
def test_keys_and_values_are_not_repeated(s: int, t: int, text: str) -> None:
    graph = parse(text.format(s=s, t=t))
    model = Model(graph)
    model.inputs = [(p.name, p.type) for p in graph.params]
    model.outputs = [("y", graph.outputs[0].type)]
    optimize(model)
    of_floats = text is FLOATS
    ops = Counter(n.op for n in model.graph)
    assert not {"Expand", "Transpose"} & set(ops)
    assert ops["QuantizeLinear"] == (2 if of_floats else 0)
    rng = np.random.default_rng(s)
    q = rng.standard_normal((2, 6, s, 4)).astype(np.float32)
    x, z = (rng.integers(0, 256, (2, 2, t, 4)).astype(np.uint8) for _ in range(2))
    keys, values = ((v.astype(np.float64) - zero) * scale for v, zero, scale in ((x, 120, 0.02), (z, 7, 0.03)))
    scores = q.astype(np.float64) @ np.repeat(keys, 3, 1).transpose(0, 1, 3, 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ np.repeat(values, 3, 1)
    cache = {"fx": keys.astype(np.float32), "fz": values.astype(np.float32)} if of_floats else {"x": x, "z": z}
    got = minnow.load(encode(model)).run({"q": q, **cache})["y"]
    np.testing.assert_allclose(got, want, atol=2e-5)
