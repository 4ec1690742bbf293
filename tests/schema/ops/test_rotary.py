"""RotaryEmbedding judged by ONNX's reference operator, and by what transformers' models compute."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder, get

OP = get("RotaryEmbedding")


def by_onnx(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool, size: int) -> np.ndarray:
    """x [B, H, S, D]; the tables are [B, S, pairs]."""
    node = helper.make_node(
        "RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=interleaved, rotary_embedding_dim=size
    )
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xcsy"]
    model = helper.make_model(
        helper.make_graph([node], "g", info[:3], info[3:]), opset_imports=[helper.make_opsetid("", 23)]
    )
    return ReferenceEvaluator(model).run(None, {"x": x, "c": cos, "s": sin})[0]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size", [0, 6])
def test_tables_of_pairs(interleaved: bool, size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5, 10)).astype(np.float32)
    cos, sin = (rng.standard_normal((2, 5, (size or 10) // 2)).astype(np.float32) for _ in range(2))
    (got,) = OP.evaluate([x, cos[:, None], sin[:, None]], {"interleaved": interleaved, "size": size})
    np.testing.assert_allclose(got, by_onnx(x, cos, sin, interleaved, size), rtol=1e-5, atol=1e-6)


@pytest.mark.slow  # imports PyTorch and transformers
@pytest.mark.parametrize("family", ["llama", "gptj"])
def test_tables_of_features(family: str) -> None:
    torch = pytest.importorskip("torch")
    import torch_architectures  # noqa: F401  (makes transformers importable beside a PyTorch for CPUs)

    modeling = pytest.importorskip(f"transformers.models.{family}.modeling_{family}")
    rng = np.random.default_rng(1)
    x, cos, sin = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 5, 8), (2, 1, 5, 8), (2, 1, 5, 8)))
    turn = modeling.rotate_half if family == "llama" else modeling.rotate_every_two
    want = x * cos + turn(torch.from_numpy(x)).numpy() * sin
    (got,) = OP.evaluate([x, cos, sin], {"interleaved": family == "gptj"})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "attrs", "part"),
    [
        (((2, 5), (5,), (5,)), {}, "5 of 5 features"),
        (((2, 4), (4,), (4,)), {"size": 6}, "6 of 4 features"),
        (((2, 4), (3,), (4,)), {}, "neither for 4 features"),
        (((2, 4), (1,), (4,)), {}, "neither for 4 features"),
        (((2, 4), (3, 4), (4,)), {}, "does not broadcast"),
        (((2, 4), (1, 2, 4), (4,)), {}, "does not broadcast"),
        (((), (4,), (4,)), {}, "scalar"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: tuple, attrs: dict, part: str) -> None:
    graph = Graph()
    operands = [graph.add_param(TensorType(DType.F32, s)) for s in shapes]
    with pytest.raises(ModelError, match=part):
        Builder(graph).RotaryEmbedding(*operands, **attrs)
