"""`nn.grad` beside PyTorch's gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from minnow import expr, nn
from minnow.errors import UsageError

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 5)).astype(np.float32)
W = RNG.standard_normal((5, 3)).astype(np.float32)
FACTORS = RNG.standard_normal((4, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    expr.lazy_eval(True)
    yield
    expr.lazy_eval(False)


def lazy(data: np.ndarray) -> expr.Var:
    x = expr.placeholder(list(data.shape))
    x.write(data)
    return x


def test_gradients_by_inputs_and_by_what_is_between() -> None:
    x, w = lazy(X), lazy(W)
    between = expr.tanh(expr.matmul(x, w))
    loss = expr.reduce_sum(between * between * between)
    a, b = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    middle = torch.tanh(a @ b)
    wanted = torch.autograd.grad((middle**3).sum(), [a, middle, b])
    for ours, theirs in zip(nn.grad(loss, [x, between, w]), wanted, strict=True):
        np.testing.assert_allclose(ours.read(), theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_factors_of_outputs_and_new_contents() -> None:
    x, w = lazy(X), lazy(W)
    (by_w,) = nn.grad([expr.sigmoid(expr.matmul(x, w))], w, [expr.const(FACTORS, list(FACTORS.shape))])
    for data in (X, 2 - X):
        x.write(data)
        b = torch.tensor(W, requires_grad=True)
        (wanted,) = torch.autograd.grad(torch.sigmoid(torch.tensor(data) @ b), b, torch.tensor(FACTORS))
        np.testing.assert_allclose(by_w.read(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_gradient_of_a_gradient() -> None:
    x = lazy(X)
    (first,) = nn.grad(expr.reduce_sum(expr.exp(x) * x), x)
    (second,) = nn.grad(expr.reduce_sum(first), x)
    np.testing.assert_allclose(second.read(), np.exp(X) * (X + 2), rtol=1e-4)


def test_what_cannot_be_differentiated() -> None:
    x, w = lazy(X), lazy(W)
    with pytest.raises(UsageError, match="no output is computed of parameter 1"):
        nn.grad(expr.exp(x), [x, expr.exp(w)])
    expr.lazy_eval(False)
    with pytest.raises(UsageError, match="lazy_eval"):
        nn.grad(expr.exp(w), w)
    expr.lazy_eval(True)
    with pytest.raises(UsageError):
        nn.grad(expr.exp(x), [1.0])
