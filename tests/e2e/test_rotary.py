"""Rotary positions as exporters and runtimes spell them become one node each, which gives what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.pipeline import count_nodes
from minnow.schema.ir import Model
from minnow.schema.mnn import encode

Array = np.ndarray[Any, Any]


def run(model: Model, feed: dict[str, Array]) -> Array:
    session = minnow.load(encode(model), threads=1)
    (result,) = session.run(feed).values()
    return np.asarray(result)


def standard(
    shape: tuple[int, ...], pairs: int, places: bool, **attrs: Any
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """ONNX's own operator; with places the tables have rows for all of them."""
    rng = np.random.default_rng(0)
    batch, length = shape[0], shape[-2]
    x = rng.standard_normal(shape).astype(np.float32)
    rows = (19, pairs) if places else (batch, length, pairs)
    angles = rng.standard_normal(rows)
    feed = {"x": x} | ({"places": rng.integers(0, 19, (batch, length))} if places else {})
    tables = [numpy_helper.from_array(f(angles).astype(np.float32), n) for f, n in ((np.cos, "cos"), (np.sin, "sin"))]
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", *(["places"] if places else [])], ["y"], **attrs)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", inputs, [result], tables)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), feed


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("shape", "pairs", "attrs"),
    [
        ((2, 3, 5, 8), 4, {}),
        ((2, 3, 5, 8), 2, {"rotary_embedding_dim": 4}),
        ((2, 5, 24), 4, {"num_heads": 3}),
        ((1, 1, 24), 4, {"num_heads": 3}),
        ((2, 5, 24), 2, {"num_heads": 3, "rotary_embedding_dim": 4}),
    ],
)
def test_the_operator_of_onnx(
    shape: tuple[int, ...], pairs: int, attrs: dict[str, int], interleaved: int, places: bool, tmp_path: Any
) -> None:
    source, feed = standard(shape, pairs, places, interleaved=interleaved, **attrs)
    (want,) = ReferenceEvaluator(source).run(None, feed)
    onnx.save(source, tmp_path / "m.onnx")
    for target in ("mnn", "minnow"):
        model = read(tmp_path / "m.onnx")
        optimize(model, target=target)
        assert count_nodes(model.graph).get("RotaryEmbedding", 0) == (target == "minnow"), model.graph
        np.testing.assert_allclose(run(model, feed), want, rtol=1e-5, atol=1e-5)


def contrib(shape: tuple[int, ...], pairs: int, **attrs: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The operator of onnxruntime, which is not exactly that of ONNX."""
    source, feed = standard(shape, pairs, places=True, **attrs)
    node = source.graph.node[0]
    node.domain = "com.microsoft"
    node.input[:] = ["x", "places", "cos", "sin"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(source.graph, opset_imports=opsets, ir_version=8), feed


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("shape", "pairs", "attrs"),
    [((2, 3, 5, 8), 4, {}), ((2, 5, 24), 4, {}), ((2, 5, 24), 2, {"num_heads": 3, "rotary_embedding_dim": 4})],
)
def test_the_operator_of_onnxruntime(
    shape: tuple[int, ...], pairs: int, attrs: dict[str, int], interleaved: int, tmp_path: Any
) -> None:
    from onnx_contrib import onnxruntime_runs

    source, feed = contrib(shape, pairs, interleaved=interleaved, **attrs)
    (want,) = onnxruntime_runs(source, feed)
    onnx.save(source, tmp_path / "m.onnx")
    for target in ("mnn", "minnow"):
        model = read(tmp_path / "m.onnx")
        optimize(model, target=target)
        assert count_nodes(model.graph).get("RotaryEmbedding", 0) == (target == "minnow"), model.graph
        np.testing.assert_allclose(run(model, feed), want, rtol=1e-5, atol=1e-5)


def _llama(torch: Any) -> Callable[..., Any]:
    def turn(x: Any) -> Any:
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1)

    return lambda x, angles: x * torch.cat((angles, angles), -1).cos() + turn(x) * torch.cat((angles, angles), -1).sin()


def _chunked(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        (a, b), c, s = x.chunk(2, -1), angles.cos(), angles.sin()
        return torch.cat((a * c - b * s, a * s + b * c), -1)

    return apply


def _complex(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2)

    return apply


def _neighbors(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        c, s = (torch.repeat_interleave(t, 2, -1) for t in (angles.cos(), angles.sin()))
        return x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * s

    return apply


def _unbound(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        (a, b), c, s = x.unflatten(-1, (-1, 2)).unbind(-1), angles.cos(), angles.sin()
        return torch.stack((a * c - b * s, b * c + a * s), -1).reshape(x.shape)

    return apply


def _partial(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        count = 2 * angles.shape[-1]
        return torch.cat((_llama(torch)(x[..., :count], angles), x[..., count:]), -1)

    return apply


def _of_chunks(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        wide = torch.cat((x, x + 1), -1)
        return _partial(torch)(wide.chunk(2, -1)[1], angles)

    return apply


def _behind_a_token(torch: Any) -> Callable[..., Any]:
    def apply(x: Any, angles: Any) -> Any:
        return torch.cat((x[:, :, :1], _neighbors(torch)(x[:, :, 1:], angles[:, :, 1:])), 2)

    return apply


SPELLINGS = [_llama, _chunked, _complex, _neighbors, _unbound, _partial, _of_chunks, _behind_a_token]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("road", ["export", "trace"])
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda f: f.__name__.strip("_"))
def test_what_is_written_in_pytorch(spelling: Callable[..., Any], road: str) -> None:
    torch = pytest.importorskip("torch")
    from torch_oracle import Call, model_of, numpy_of

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 5, 16, generator=generator)
    angles = torch.randn(1, 1, 5, 6 if spelling in (_partial, _of_chunks) else 8, generator=generator)
    function = spelling(torch)
    model = model_of(Call(function), (x, angles), road)
    optimize(model, target="minnow")
    counts = count_nodes(model.graph)
    assert counts.get("RotaryEmbedding") == 1, model.graph
    own = {"Add", "Slice"} if spelling in (_of_chunks, _behind_a_token) else set()
    assert not ({"Mul", "Neg", "Slice", "Add"} - own) & set(counts), model.graph
    feed = {n: numpy_of(t) for (n, _), t in zip(model.inputs, (x, angles), strict=True)}
    np.testing.assert_allclose(run(model, feed), function(x, angles).numpy(), rtol=1e-5, atol=1e-5)
