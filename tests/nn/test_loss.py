"""Losses by their formulas, and their gradients by PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow import expr, nn, optim
from minnow.expr.var import Var
from minnow.schema.errors import UsageError

RNG = np.random.default_rng(4)
P = np.exp(RNG.standard_normal((6, 5))).astype(np.float32)
P /= P.sum(1, keepdims=True)
T = np.eye(5, dtype=np.float32)[RNG.integers(0, 5, 6)]
Q = P[::-1].copy()


def _torch(name: str) -> Any:
    import torch

    return {
        "cross_entropy": lambda p, t: -(t * torch.log(p)).sum(1).mean(),
        "kl": lambda p, t: (p * (torch.log(p) - torch.log(t))).sum(1).mean(),
        "mse": lambda p, t: ((p - t) ** 2).sum(1).mean(),
        "mae": lambda p, t: (p - t).abs().sum(1).mean(),
        "hinge": lambda p, t: torch.relu(1 - p * t).sum(1).mean(),
    }[name]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["cross_entropy", "kl", "mse", "mae", "hinge"])
def test_a_loss_and_its_gradient(name: str, lazy: bool) -> None:
    import torch

    target = {"kl": Q, "hinge": 2 * T - 1}.get(name, T)
    expr.lazy_eval(lazy)
    try:
        p = expr.placeholder([6, 5])
        p.write(P)
        loss = getattr(nn.loss, name)(p, target)
        by_p = optim.Grad().grad([loss], [], [p])[1][0] if lazy else None
        tp = torch.from_numpy(P).requires_grad_()
        expected = _torch(name)(tp, torch.from_numpy(np.ascontiguousarray(target)))
        expected.backward()
        np.testing.assert_allclose(loss.read(), expected.item(), rtol=1e-5)
        if by_p is not None:
            np.testing.assert_allclose(by_p.read(), tp.grad.numpy(), atol=1e-5)
    finally:
        expr.lazy_eval(False)


def test_distillation() -> None:
    import torch
    import torch.nn.functional as F

    s, t = (RNG.standard_normal((6, 5)).astype(np.float32) for _ in range(2))
    soft, hard = (torch.softmax(torch.from_numpy(v) / 4, 1) for v in (s, t))
    expected = 0.3 * 16 * (soft * (soft / hard).log()).sum(1).mean()
    expected += 0.7 * F.cross_entropy(torch.from_numpy(s), torch.from_numpy(T))
    np.testing.assert_allclose(nn.loss.distillation(s, t, T, 4, 0.3).read(), expected.item(), rtol=1e-5)


def test_a_probability_of_zero_is_no_infinity() -> None:
    loss = nn.loss.cross_entropy(np.array([[0, 1], [1, 0]], np.float32), np.array([[0, 1], [0, 1]], np.float32))
    assert 40 < loss.read() < 50


def test_integers_may_be_targets() -> None:
    assert nn.loss.mse(np.array([[1.0, 4.0]], np.float32), np.array([[0, 2]])).read() == 5


@pytest.mark.parametrize("shape", [(6, 4), (6,), (5, 6)])
def test_shapes_that_differ_are_an_error(shape: Any) -> None:
    with pytest.raises(UsageError, match="a target of the shape"):
        nn.loss.mse(Var(P), np.zeros(shape, np.float32))
