"""What contrib operators are refused for, and how: by name, with the reason, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_contrib import CONTRIB, Case

from minnow.converter import read
from minnow.schema.errors import ModelError, UnsupportedError

X = np.zeros((2, 5, 8), np.float32)
W = np.zeros((8, 24), np.float32)
CODES, SCALES = np.zeros((4, 1, 8), np.uint8), np.zeros((4, 1), np.float32)
NBITS = {"K": 16, "N": 4, "block_size": 16}
IDS = np.zeros((2, 5), np.int64)
ONE = np.zeros(1, np.int32)


def case(op: str, *inputs: Any, constant: Any = (), **attrs: Any) -> Case:
    return Case(op, inputs, attrs, constant=constant, named=False)


FORMS = [
    (case("Attention", X, W, num_heads=2, do_rotary=1), "do_rotary"),
    (case("Attention", X, W, None, np.zeros((2, 1, 5, 5), np.int32), num_heads=2), "mask of rank 4"),
    (case("Attention", X, W, None, np.zeros(8, np.int32), num_heads=2), "a mask of 8 numbers"),
    (case("MultiHeadAttention", X, X, X, None, None, None, None, None, ONE, num_heads=2), "past_sequence_length"),
    (case("GroupQueryAttention", X, X, X, None, None, ONE, ONE, num_heads=2, kv_num_heads=2, local_window_size=3,
          sliding_window_cache=1), "sliding_window_cache"),
    (case("GroupQueryAttention", X, X, X, None, None, ONE, ONE, num_heads=2, kv_num_heads=2,
          k_quant_type="PER_TENSOR"), "quantized cache"),
    (case("RotaryEmbedding", X, IDS, W, W, is_packed_batching=1), "packed batches"),
    (case("MatMulNBits", np.zeros((2, 16), np.float32), CODES, SCALES, **NBITS), "of MatMulNBits must be constant"),
    (case("MatMulNBits", X, CODES, SCALES, constant=[1, 2], **NBITS, bits=5), "weights of 5 bits"),
    (case("MatMulNBits", X, CODES, SCALES, constant=[1, 2], **NBITS, weight_prepacked=1), "accelerator"),
    (case("CDist", X[0], X[0], metric="cosine"), "cosine"),
    (case("FusedConv", X, X, activation="Selu"), "'Selu' is not supported"),
    (case("Tokenizer", X), "strings"),
    (case("MoE", X), "experts"),
    (case("BeamSearch", X), "decoder"),
    (case("QOrderedGelu", X), "onnxruntime's own"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "reason"), FORMS, ids=[f"{c.op}-{reason}" for c, reason in FORMS])
def test_a_form_is_refused_with_the_reason(form: Case, reason: str, tmp_path: Path) -> None:
    model, _ = form.model()
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(UnsupportedError) as e:
        read(tmp_path / "m.onnx")
    assert reason in str(e.value)
    assert "node" in str(e.value)


def test_everything_is_listed_at_once(tmp_path: Path) -> None:
    model, _ = FORMS[0][0].model()
    for i, name in enumerate(("Tokenizer", "MoE", "BeamSearch", "Mystery")):
        model.graph.node.append(onnx.helper.make_node(name, ["in0"], [f"more{i}"], domain=CONTRIB, name=f"the{name}"))
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(UnsupportedError) as e:
        read(tmp_path / "m.onnx")
    for part in ("do_rotary", "theTokenizer", "theMoE", "theBeamSearch", "theMystery"):
        assert part in str(e.value)


BROKEN = [
    case("Attention", X, W[:, :23], num_heads=3),
    case("Attention", X, W, num_heads=5),
    case("MultiHeadAttention", X, num_heads=2),
    case("GroupQueryAttention", X, X, X, None, None, ONE, ONE, num_heads=3, kv_num_heads=2),
    case("GroupQueryAttention", X, X, X, None, None, ONE, ONE, num_heads=2, kv_num_heads=2, do_rotary=1),
    case("MatMulNBits", X, CODES, SCALES, constant=[1, 2], K=16, N=4, block_size=17),
    case("MatMulNBits", X, CODES, SCALES, constant=[1, 2], K=64, N=4, block_size=16),
    case("MatMulNBits", X, CODES, SCALES, constant=[1, 2], **NBITS),  # x has 8 features
    case("QLinearConcat", np.float32(1), np.uint8(0), X.astype(np.uint8), np.float32(1), axis=1),
    case("EmbedLayerNormalization", IDS, IDS, X[0], X[0]),
    case("GroupNorm", X[None], W[0], W[0], groups=3, activation=7),
    case("NGramRepeatBlock", IDS, X[0], ngram_size=0),
]


@pytest.mark.parametrize("form", BROKEN, ids=str)
def test_an_invalid_node_is_named(form: Case, tmp_path: Path) -> None:
    model, _ = form.model()
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises((ModelError, UnsupportedError), match="node"):
        read(tmp_path / "m.onnx")
