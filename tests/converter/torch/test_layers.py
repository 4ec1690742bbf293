"""Layers of PyTorch: recurrent ones, attention and transformers, embeddings; and losses and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import rnn  # noqa: E402
from torch_oracle import check  # noqa: E402

Function = Callable[..., Any]


def x_(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))).to(dtype)


@pytest.fixture(autouse=True)
def _same_weights() -> None:
    torch.manual_seed(7)


class On(nn.Module):
    """A function of a module and tensors."""

    def __init__(self, module: nn.Module, function: Function) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *xs: torch.Tensor) -> Any:
        return self.function(self.module, *xs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 7),
        lambda: nn.GRU(3, 5, 2, bidirectional=True, batch_first=True),
        lambda: nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True),
        lambda: nn.RNN(3, 5, 2, nonlinearity="relu", bias=False),
        lambda: nn.RNN(3, 5, bidirectional=True),
        lambda: nn.GRU(3, 1, bias=False),
        lambda: nn.LSTM(3, 5, 2, proj_size=2, bidirectional=True),
    ],
)
def test_recurrent_layers(make: Callable[[], nn.Module]) -> None:
    check(make(), x_(5, 2, 3))


def test_the_first_states_of_recurrent_layers() -> None:
    check(On(nn.LSTM(3, 5, 2), lambda m, x, h, c: m(x, (h, c))), x_(4, 2, 3), x_(2, 2, 5), x_(2, 2, 5))
    check(On(nn.GRU(3, 5), lambda m, x, h: m(x, h)), x_(4, 3), x_(1, 5))


def test_a_scripted_recurrent_layer() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(3, 5, 2, bidirectional=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    check(Scripted(), x_(4, 2, 3), roads=["script"])


@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells(make: Callable[..., nn.Module], bias: bool) -> None:
    check(make(3, 5, bias=bias), x_(2, 3))


@pytest.mark.parametrize("keywords", [{}, {"padding_value": -1.0, "total_length": 8}])
def test_sequences_of_several_lengths(keywords: dict[str, Any]) -> None:
    def run(module: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> tuple[Any, ...]:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y, last = module(packed)
        return *rnn.pad_packed_sequence(y, batch_first=True, **keywords), last

    lengths = torch.tensor([5, 3, 1])
    check(On(nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), run), x_(3, 6, 3), lengths, roads=["trace"])


HEADS = (x_(2, 4, 5, 3), x_(2, 4, 7, 3), x_(2, 4, 7, 6))
HIDDEN = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(3)) > 0.4
HIDDEN[1, 0, 2] = False


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.scaled_dot_product_attention, HEADS),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), HEADS),
        (F.scaled_dot_product_attention, (*HEADS, HIDDEN)),
        (F.scaled_dot_product_attention, (*HEADS, torch.where(HIDDEN, 0.5, -torch.inf))),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, HIDDEN), HEADS),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
         (x_(2, 6, 5, 3), x_(2, 2, 7, 3), x_(2, 2, 7, 3))),
        (F.scaled_dot_product_attention, (x_(5, 3), x_(7, 3), x_(7, 3))),
        (lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v),
         (x_(2, 4, 5, 3), x_(2, 4, 7, 3), x_(2, 4, 7, 3))),
        (lambda x: torch.ops.aten._safe_softmax(x, -1), (torch.tensor([[1.0, -torch.inf], [-torch.inf] * 2]),)),
    ],
)  # fmt: skip
def test_attention(function: Function, args: tuple[torch.Tensor, ...]) -> None:
    check(function, *args)


@pytest.mark.parametrize("kind", [None, 0, 1, 2])
@pytest.mark.parametrize("same", [True, False])
def test_fused_attention_between_projections(kind: int | None, same: bool) -> None:
    masks = {0: x_(5, 5) > 1, 1: x_(2, 5) > 1, 2: x_(2, 2, 5, 5) > 1}
    weights = (x_(24, 8), x_(24), x_(8, 8), x_(8))

    def attention(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
        key = q if same else k
        return torch.ops.aten._native_multi_head_attention(q, key, key, 8, 2, *weights, mask, True, kind != 2, kind)

    mask = () if kind is None else (masks[kind],)
    check(attention, x_(2, 5, 8), x_(2, 5, 8) * 2, *mask, roads=["export"])


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_fused_layer_of_an_encoder(norm_first: bool) -> None:
    weights = (x_(24, 8), x_(24), x_(8, 8), x_(8), norm_first, norm_first, 1e-5, x_(8), x_(8) + 1, x_(8), x_(8) - 1,
               x_(16, 8), x_(16), x_(8, 16), x_(8))  # fmt: skip
    check(lambda x: torch.ops.aten._transformer_encoder_layer_fwd(x, 8, 2, *weights), x_(2, 5, 8), roads=["export"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lambda: On(nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x: m(x, x, x)), (x_(2, 5, 8),)),
        (lambda: On(nn.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True),
                    lambda m, q, k, v: m(q, k, v)), (x_(5, 2, 8), x_(7, 2, 3), x_(7, 2, 5))),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (x_(2, 5, 8),)),
        (lambda: On(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True),
                    lambda m, x, hidden: m(x, src_key_padding_mask=hidden)),
         (x_(5, 2, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))),
        (lambda: nn.TransformerDecoderLayer(8, 2, 16), (x_(5, 2, 8), x_(7, 2, 8))),
    ],
)  # fmt: skip
def test_transformers(make: Callable[[], nn.Module], args: tuple[torch.Tensor, ...]) -> None:
    check(make(), *args)


ROWS = torch.tensor([1, 4, 2, 0, 2, 10])
STARTS = torch.tensor([0, 2, 2, 5])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("keywords", [{}, {"padding_idx": 2}, {"include_last_offset": True}])
def test_bags_of_embeddings(mode: str, keywords: dict[str, Any]) -> None:
    starts = torch.cat([STARTS, torch.tensor([6])]) if keywords.get("include_last_offset") else STARTS
    check(nn.EmbeddingBag(11, 3, mode=mode, **keywords), ROWS, starts)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda i, w: F.embedding(i, w, padding_idx=2), (torch.tensor([[0, 2], [4, 2]]), x_(5, 3))),
        (lambda i, w: F.embedding(i, w.clone(), max_norm=1.0), (torch.tensor([0, 2, 2]), x_(5, 3))),
        (lambda i, w, f: F.embedding_bag(i, w, STARTS, mode="sum", per_sample_weights=f), (ROWS, x_(11, 3), x_(6))),
        (lambda i, w: F.embedding_bag(i, w, padding_idx=-1), (torch.tensor([[0, 4], [4, 2]]), x_(5, 3))),
        (lambda i: F.one_hot(i, 5), (torch.tensor([[0, 4], [2, 2]]),)),
        (F.one_hot, (torch.tensor([0, 4, 2]),)),
    ],
)
def test_tables(function: Function, args: tuple[torch.Tensor, ...]) -> None:
    roads = ["export"] if function is not F.one_hot else ["trace"]
    check(function, *args, roads=roads)


SCORES, CLASSES = x_(5, 4, 3), torch.tensor([[0, 3, 1], [2, -100, 0], [1, 1, 1], [3, 2, 0], [-100, 0, 3]])
PAIR = (x_(3, 5), x_(3, 5) * 2 + 0.5)
SIDES = torch.tensor([1.0, -1.0, 1.0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (F.mse_loss, PAIR),
        (F.l1_loss, PAIR),
        (lambda *a, **k: F.smooth_l1_loss(*a, beta=0.7, **k), PAIR),
        (lambda *a, **k: F.huber_loss(*a, delta=0.7, **k), PAIR),
        (F.nll_loss, (SCORES, CLASSES, x_(4).abs())),
        (F.cross_entropy, (SCORES, CLASSES)),
        (lambda *a, **k: F.cross_entropy(*a, label_smoothing=0.3, **k), (SCORES, CLASSES, x_(4).abs())),
        (F.cross_entropy, (x_(3, 5), x_(3, 5).softmax(1), x_(5).abs())),
        (F.binary_cross_entropy, (torch.tensor([0.0, 0.3, 1.0]), torch.tensor([0.5, 1.0, 1.0]))),
        (lambda x, t, p, **k: F.binary_cross_entropy_with_logits(x, t, pos_weight=p, **k),
         (x_(3, 5) * 50, x_(3, 5).sigmoid(), x_(5).abs())),
        (F.kl_div, (x_(3, 5), torch.tensor([0.0, 0.5, 1.0, 2.0, 0.1]))),
        (lambda *a, **k: F.poisson_nll_loss(*a, full=True, **k), (x_(3, 5), x_(3, 5).abs() * 3)),
        (F.soft_margin_loss, (x_(3), SIDES)),
        (F.hinge_embedding_loss, (x_(3), SIDES)),
        (F.margin_ranking_loss, (x_(3), x_(3) * 2, SIDES)),
        (lambda x, t, w, **k: F.multi_margin_loss(x, t, 2, 0.8, w, **k), (x_(3, 5), torch.tensor([4, 0, 2]), x_(5))),
        (F.multilabel_margin_loss, (x_(2, 5), torch.tensor([[3, 0, -1, 1, -1], [4, 4, 2, 1, 0]]))),
        (F.cosine_embedding_loss, (*PAIR, SIDES)),
        (lambda *a, **k: F.triplet_margin_loss(*a, p=3.0, swap=True, **k), (*PAIR, x_(3, 5) * 3)),
    ],
)  # fmt: skip
def test_losses(function: Function, args: tuple[torch.Tensor, ...], reduction: str) -> None:
    check(lambda *a: function(*a, reduction=reduction), *args, roads=["export"], engine=reduction == "mean")


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances(p: float) -> None:
    def distances(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.cdist(x, y, p), F.pdist(x[0], p), F.pairwise_distance(x, y, p, keepdim=True)

    check(distances, x_(2, 4, 3), x_(1, 4, 3), roads=["export"])


def test_how_alike_vectors_are() -> None:
    check(F.cosine_similarity, x_(2, 3, 5), x_(2, 3, 5))
    check(lambda x, y: F.cosine_similarity(x, y, dim=-2), x_(1, 2, 3), x_(2, 1, 3))
    check(lambda x, y: F.cosine_similarity(x, y, dim=0), x_(3), torch.zeros(3))
