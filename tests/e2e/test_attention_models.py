"""Attention as one node of a model for Minnow's engine: in all spellings of exporters, and in whole architectures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_spelling import FUSED, LEFT
from onnx_spelling import Case, Spelling, check

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.schema.mnn import encode

_MOVED = {"MatMul", "Softmax", "Transpose", "Expand", "Split", "Slice", "Gather", "Where", "Concat"}


@pytest.mark.parametrize("case", FUSED, ids=lambda case: case.__name__)
def test_attention_is_one_node(case: Case, tmp_path: Path) -> None:
    ops = check(case, str(tmp_path), 2, "minnow")
    assert ops & {"Attention", "FusedAttention"}
    assert not ops & _MOVED


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case.__name__)
def test_what_is_not_attention_is_left(case: Case, tmp_path: Path) -> None:
    assert not check(case, str(tmp_path), 1, "minnow") & {"Attention", "FusedAttention"}


def _joined(s: Spelling) -> str:
    """Heads and batch in one axis, as torch.nn.MultiheadAttention has them, with a mask for each."""
    q, k, v = (s.Transpose(s.reshaped(s.input(7, 3, 20), 7, 12, 5), perm=[1, 0, 2]) for _ in range(3))
    scores = s.Add(s.MatMul(s.Mul(q, s.constant(0.4)), s.Transpose(k, perm=[0, 2, 1])), s.input(12, 7, 7))
    y = s.MatMul(s.Softmax(scores, axis=-1), v)
    return s.reshaped(s.Transpose(y, perm=[1, 0, 2]), 7, 3, 20)


def _length_first(s: Spelling) -> str:
    """torch.nn.MultiheadAttention: all parts of one layer, the length in front of the batch."""
    parts = s.Transpose(s.reshaped(s.input(7, 3, 60), 7, 3, 3, 20), perm=[2, 0, 1, 3])
    q, k, v = (s.Gather(parts, s.constant(i, np.int64), axis=0) for i in range(3))
    q, k, v = (s.Transpose(s.reshaped(x, 7, 12, 5), perm=[1, 0, 2]) for x in (q, k, v))
    y = s.attend(q, s.Transpose(k, perm=[0, 2, 1]), v)
    return s.reshaped(s.Transpose(y, perm=[1, 0, 2]), 21, 20)


def _hidden(s: Spelling) -> str:
    """A condition that leaves some queries without a key, whose weights are then 0."""
    q, k, v = (s.heads(s.input(2, 9, 24), 3, 8) for _ in range(3))
    scores = s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2]))
    seen = np.random.default_rng(3).random((2, 1, 9, 9)) < 0.5
    seen[1, :, 4] = False
    weights = s.Softmax(s.Where(s.constant(seen, np.bool_), scores, s.constant(-np.inf)), axis=-1)
    weights = s.Where(s.IsNaN(weights), s.constant(0.0), weights)
    return s.merged(s.MatMul(weights, v), 24)


def _causal(s: Spelling) -> str:
    q, k, v = (s.heads(s.input(2, 130, 24), 3, 8) for _ in range(3))
    scores = s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2]))
    masked = s.Where(s.constant(np.tri(130), np.bool_), scores, s.constant(-np.inf))
    return s.merged(s.MatMul(s.Softmax(masked, axis=-1), v), 24)


@pytest.mark.parametrize("case", [_joined, _length_first, _hidden, _causal], ids=lambda case: case.__name__)
def test_more_spellings(case: Case, tmp_path: Path) -> None:
    assert not check(case, str(tmp_path), 2, "minnow") & {"MatMul", "Softmax", "Where", "Transpose", "Gather"}


# Architecture -> attentions, and how many nodes more there may be in the whole model.
ARCHITECTURES = {
    "bert": (2, 24), "vit": (2, 22), "llama": (2, 40), "whisper_encoder": (2, 22), "gpt2": (2, 28),
}  # fmt: skip


def _run(path: Path, inputs: Sequence[Any], passes: Sequence[str] = ()) -> tuple[list[Any], Counter[str]]:
    model = read(path)
    optimize(model, target="minnow", passes=passes)
    session = minnow.load(encode(model), threads=1)
    results = session.run({name: np.asarray(x) for (name, _), x in zip(model.inputs, inputs, strict=True)})
    return [results[n] for n, _ in model.outputs], Counter(n.op for n in model.graph)


@pytest.mark.slow
@pytest.mark.skipif(not (find_spec("torch") and find_spec("transformers")), reason="they make the models")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name: str, dynamic: bool, tmp_path: Path) -> None:
    """As torch.export makes it: the same numbers with and without the rules, and PyTorch's."""
    import torch
    import torch_architectures

    module, inputs = torch_architectures.make(getattr(torch_architectures, name))
    shapes = None
    if dynamic:
        inputs = tuple(torch.cat([x, x]) if len(x) == 1 else x for x in inputs)
        every = torch.export.Dim.DYNAMIC
        shapes = (tuple({0: every, 1: every} if x.ndim == 2 else {0: every} for x in inputs),)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), path)
    with torch.no_grad():
        wanted = module(*inputs).numpy()
    (got,), ops = _run(path, inputs)
    (without,), _ = _run(path, inputs, ["-fuse_attention"])
    for other in (without, wanted):
        np.testing.assert_allclose(got, other, rtol=0, atol=1e-5 * max(1.0, float(np.abs(other).max())))
    attentions, most = ARCHITECTURES[name]
    assert (ops["Attention"], ops["Softmax"], ops["MatMul"]) == (attentions, 0, 0)
    if not dynamic:
        assert ops.total() <= most


@pytest.mark.slow
@pytest.mark.skipif(not (find_spec("torch") and find_spec("transformers")), reason="they make the models")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture_in_16_bits(name: str, tmp_path: Path) -> None:
    """As many nodes as in f32; and PyTorch's numbers, as far as it rounds them."""
    import torch
    import torch_architectures

    module, inputs = torch_architectures.make(getattr(torch_architectures, name))
    path, counts = tmp_path / "model.pt2", []
    for half in (False, True):
        if half:
            module, inputs = module.half(), tuple(x.half() if x.is_floating_point() else x for x in inputs)
        torch.export.save(torch.export.export(module, inputs), path)
        (got,), ops = _run(path, inputs)
        counts.append(ops)
    with torch.no_grad():
        wanted = module(*inputs).numpy()
    assert wanted.dtype == got.dtype == np.float16
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-2 * float(np.abs(wanted).max()))
    assert counts[0] == counts[1]


_F32, _F16 = 1, 10  # as ONNX numbers them


def _layer(s: Spelling, half: bool, wide_softmax: bool) -> str:
    """A layer of BERT with inputs and outputs in f32; what is between them in 16 bits, but perhaps the softmax."""
    dtype = np.float16 if half else np.float32

    def to(x: str, type: int, where: bool = half) -> str:
        return s.Cast(x, to=type) if where else x

    def weight(*shape: int) -> str:
        return s.constant(s.rng.standard_normal(shape) / 5, dtype)

    def dense(x: str, rows: int, columns: int) -> str:
        return s.Add(s.MatMul(x, weight(rows, columns)), weight(columns))

    x = to(s.input(2, 7, 24), _F16)
    q, k, v = (s.heads(dense(x, 24, 24), 3, 8) for _ in range(3))
    scores = s.Div(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), s.constant(8**0.5, dtype))
    scores = to(s.Add(scores, to(s.input(2, 1, 1, 7), _F16)), _F32, wide_softmax)
    weights = to(s.Softmax(scores, axis=-1), _F16, wide_softmax)
    x = s.Add(x, dense(s.merged(s.MatMul(weights, v), 24), 24, 24))
    x = s.LayerNormalization(x, weight(24), weight(24))
    y = dense(x, 24, 40)
    gelu = s.Mul(
        s.Mul(y, s.Add(s.Erf(s.Div(y, s.constant(2**0.5, dtype))), s.constant(1, dtype))), s.constant(0.5, dtype)
    )
    return to(s.Add(x, dense(gelu, 40, 24)), _F32)


@pytest.mark.parametrize("wide_softmax", [False, True], ids=["", "softmax in f32"])
def test_a_layer_in_16_bits(wide_softmax: bool, tmp_path: Path) -> None:
    """As many nodes as in f32, and onnxruntime's numbers."""
    counts = []
    for half in (False, True):
        s = Spelling()
        source = tmp_path / "model.onnx"
        source.write_bytes(s.model(_layer(s, half, half and wide_softmax)))
        report = minnow.convert(source, output=tmp_path / "model.mnn", target="minnow", check_each=True)
        assert report.verification is not None
        assert report.verification.passed
        assert "onnxruntime" in report.verification.reference
        counts.append({op: n for op, n in report.after.nodes.items() if op != "Cast"})
    assert counts[0] == counts[1] == {"Linear": 4, "Attention": 1, "LayerNorm": 1}
