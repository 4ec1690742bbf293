"""BERT and its relatives: encoders that give a vector for each text, or a score for each pair of texts."""

from __future__ import annotations

import numpy as np

from minnow.converter.llm.architecture import architecture
from minnow.converter.llm.step import Step
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value

_HARMLESS = (
    *("position_ids", "token_type_ids", "pooler.dense.weight", "pooler.dense.bias"),
    *("lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias"),
    *("lm_head.bias", "lm_head.decoder.weight", "lm_head.decoder.bias"),
    *("cls.predictions.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"),
    *(f"cls.predictions.transform.{p}" for p in ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")),
    *("cls.seq_relationship.weight", "cls.seq_relationship.bias"),
)
"""Heads of the training, which vectors of texts do without."""


@architecture("BERT and its embedding models and rerankers", "bert", harmless=_HARMLESS)
def build_bert(s: Step) -> None:
    """Places are counted from 0."""
    _build(s, "bert", from_padding=False)


@architecture("RoBERTa and XLM-RoBERTa, their embedding models and rerankers", "roberta", "xlm-roberta",
              harmless=_HARMLESS)  # fmt: skip
def build_roberta(s: Step) -> None:
    """Places are counted behind the number of the padding token, and padding has that."""
    _build(s, "roberta", from_padding=True)


def _build(s: Step, prefix: str, from_padding: bool) -> None:
    places = str(s.settings.raw("position_embedding_type") or "absolute")
    if places != "absolute":
        raise UnsupportedError(f"positions of the kind '{places[:40]}' are not supported", where=s.settings.where)
    kinds = s.settings.integer("type_vocab_size", default=0, least=0)
    ids, mask, kind_ids = s.open_encoder(kinds)
    p = f"{prefix}." if s.weights.has(f"{prefix}.embeddings.word_embeddings.weight") else ""
    epsilon = s.settings.real("layer_norm_eps", default=1e-12, least=0)
    x = _embedded(s, ids, f"{p}embeddings", from_padding)
    if kinds:
        first = s.b.const(np.zeros((1, 1), np.int32))
        name = f"{p}embeddings.token_type_embeddings"
        x = s.b.Add(x, s.embedding(name, first if kind_ids is None else kind_ids, kinds))
    x = s.layer_norm(x, f"{p}embeddings.LayerNorm", epsilon)
    size = s.settings.integer("intermediate_size", most=1 << 24)
    hidden = s.b.Unsqueeze(s.b.Cast(mask, to=DType.BOOL), axes=(1, 2))
    for i in range(s.layers):
        x = _layer(s, x, hidden, f"{p}encoder.layer.{i}", size, epsilon)
    if s.scores:
        s.outputs.append(("scores", _scores(s, x, p)))
    else:
        s.outputs.append(("embeddings", _pooled(s, x, mask)))


def _embedded(s: Step, ids: Value, name: str, from_padding: bool) -> Value:
    """Sums of the rows of tokens and places."""
    b, places = s.b, s.context
    if from_padding:
        padding = s.settings.integer("pad_token_id", default=1, least=0)
        there = b.Cast(b.NotEqual(ids, np.int32(padding)), to=DType.I32)
        positions = b.Add(b.Mul(b.CumSum(there, np.array(1)), there), np.int32(padding))
    else:
        length = b.Squeeze(b.Cast(b.Shape(ids, start=1, end=2), to=DType.I32), axes=(0,))
        positions = b.Unsqueeze(b.Range(np.int32(0), length, np.int32(1)), axes=(0,))
    rows = s.embedding(f"{name}.position_embeddings", positions, places)
    made: Value = b.Add(s.embedding(f"{name}.word_embeddings", ids), rows)
    return made


def _layer(s: Step, x: Value, mask: Value, p: str, size: int, epsilon: float) -> Value:
    """norm(x + attention(x)); norm(x + layer(x))."""
    q, k, v = s.linears(x, [(f"{p}.attention.self.{n}", s.hidden) for n in ("query", "key", "value")])
    y = s.b.Attention(q, k, v, None, None, mask, num_heads=s.heads, scale=s.head_size**-0.5)
    y = s.linear(y, f"{p}.attention.output.dense", s.hidden)
    x = s.layer_norm(s.b.Add(x, y), f"{p}.attention.output.LayerNorm", epsilon)
    y = s.activation(s.linear(x, f"{p}.intermediate.dense", size), "gelu")
    y = s.linear(y, f"{p}.output.dense", s.hidden, size)
    return s.layer_norm(s.b.Add(x, y), f"{p}.output.LayerNorm", epsilon)


def _first(s: Step, x: Value) -> Value:
    """The vector of the first token."""
    found: Value = s.b.Gather(x, np.array(0, np.int32), axis=1)
    return found


def _pooled(s: Step, x: Value, mask: Value) -> Value:
    """One vector of those of all tokens."""
    b = s.b
    if s.pooling == "cls":
        y = _first(s, x)
    elif s.pooling == "last":
        is_last = b.Equal(b.CumSum(mask, np.array(1), reverse=True), mask)
        weight = b.Cast(b.Mul(b.Cast(is_last, to=DType.I32), mask), to=DType.F32)
        y = b.ReduceSum(b.Mul(x, b.Unsqueeze(weight, axes=(2,))), axes=(1,), keepdims=False)
    else:
        weight = b.Unsqueeze(b.Cast(mask, to=DType.F32), axes=(2,))
        count = b.Max(b.ReduceSum(weight, axes=(1,), keepdims=False), np.float32(1e-9))
        y = b.Div(b.ReduceSum(b.Mul(x, weight), axes=(1,), keepdims=False), count)
    return s.normalized(y)


def _scores(s: Step, x: Value, prefix: str) -> Value:
    """The outputs of the classifier: [batch], or [batch, labels] where there are several."""
    first = _first(s, x)
    if s.weights.has("classifier.out_proj.weight"):
        y = s.b.Tanh(s.linear(first, "classifier.dense", s.hidden))
        name = "classifier.out_proj"
    else:
        y = s.b.Tanh(s.linear(first, f"{prefix}pooler.dense", s.hidden))
        name = "classifier"
    labels = s.labels(f"{name}.weight")
    y = s.linear(y, name, labels)
    return s.b.Squeeze(y, axes=(1,)) if labels == 1 else y
