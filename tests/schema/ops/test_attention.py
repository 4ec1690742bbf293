"""Attention against the definition of ONNX, which has the same operator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from minnow.schema.ops import get

_OPSET = 23

# name -> (operands of ONNX: q, k, v, mask, past key, past value; attributes)
CASES = {
    "features": (((2, 3, 8), (2, 5, 8), (2, 5, 12)), {"q_num_heads": 2, "kv_num_heads": 2}),
    "heads": (((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 5, 3)), {"scale": 0.3}),
    "grouped": (((1, 3, 48), (1, 5, 12), (1, 5, 12)), {"q_num_heads": 8, "kv_num_heads": 2}),
    "masked": (((2, 4, 3, 6), (2, 4, 5, 6), (2, 4, 5, 6), (2, 1, 3, 5)), {}),
    "causal": (((2, 4, 5, 6), (2, 4, 5, 6), (2, 4, 5, 6)), {"is_causal": 1}),
    "cached": (((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 6), (3, 10), (1, 2, 7, 4), (1, 2, 7, 6)), {}),
}


def _onnx(arrays: list[np.ndarray], attrs: dict[str, object], outputs: int) -> list[np.ndarray]:
    names = [f"x{i}" for i in range(len(arrays))]
    made = [f"y{i}" for i in range(outputs)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, arrays, strict=True)]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in made]
    graph = helper.make_graph([helper.make_node("Attention", names, made, **attrs)], "g", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < _OPSET, reason="this version of onnx does not have the operator")
@pytest.mark.parametrize("case", CASES)
def test_is_onnx_attention(case: str) -> None:
    shapes, attrs = CASES[case]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    cached = len(arrays) > 4
    wanted = _onnx(arrays, attrs, 3 if cached else 1)
    q, k, v, *rest = arrays
    mask, past = rest[:1], rest[1:] or [None, None]
    heads = attrs.get("q_num_heads", q.shape[1])
    size = q.shape[-1] // heads if q.ndim == 3 else q.shape[-1]
    ours = {
        "num_heads": heads,
        "num_kv_heads": attrs.get("kv_num_heads", 0),
        "scale": attrs.get("scale", 1 / np.sqrt(size)),
        "causal": bool(attrs.get("is_causal")),
    }
    got = get("Attention").evaluate([q, k, v, *past, *mask], ours)
    for a, b in zip(got, wanted, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
