"""Optimizers against PyTorch's and against MNN's formulas, in the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained_networks import Small, in_torch, torch_weights, weights

import minnow
from minnow import expr, nn, optim
from minnow.expr.operation import apply
from minnow.expr.var import Var
from minnow.schema.errors import UnsupportedError, UsageError


def _batch(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    x = rng.standard_normal((n, 2, 6, 6)).astype(np.float32)
    return x, np.eye(3, dtype=np.float32)[rng.integers(0, 3, n)]


def _torch_loss(net: Any, x: Any, t: Any) -> Any:
    import torch

    return -(torch.from_numpy(t) * torch.log(net(torch.from_numpy(x)))).sum(1).mean()


Torch = Callable[[Any], Any]


def _optimizers() -> list[tuple[str, Any, Torch]]:
    import torch

    return [
        ("SGD", lambda n: optim.SGD(n, 0.05, 0.9), lambda p: torch.optim.SGD(p, 0.05, 0.9)),
        (
            "SGD with decay",
            lambda n: optim.SGD(n, 0.05, 0.5, 0.01),
            lambda p: torch.optim.SGD(p, 0.05, 0.5, weight_decay=0.01),
        ),
        ("ADAM", lambda n: optim.ADAM(n, 0.01), lambda p: torch.optim.Adam(p, 0.01)),
        ("AdamW", lambda n: optim.AdamW(n, 0.01, weight_decay=0.1),
         lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
    ]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", range(4), ids=[name for name, _, _ in _optimizers()])
def test_steps_are_those_of_pytorch(kind: int) -> None:
    """Batches of two sizes: there are two programs, and what the optimizer keeps goes from one to the other."""
    rng = np.random.default_rng(0)
    net = Small()
    theirs = in_torch(net).train()
    _, ours, torchs = _optimizers()[kind]
    optimizer, other = ours(net), torchs(theirs.parameters())
    for n in (8, 8, 5, 8, 8, 5):
        x, t = _batch(rng, n)
        loss = nn.loss.cross_entropy(net(Var.from_array(x)), Var.from_array(t))
        assert optimizer.step(loss)
        expected = _torch_loss(theirs, x, t)
        other.zero_grad()
        expected.backward()
        other.step()
        np.testing.assert_allclose(loss.read(), expected.item(), rtol=2e-4)
    for got, want in zip(weights(net), torch_weights(theirs), strict=True):
        np.testing.assert_allclose(got, want, atol=3e-4)
    np.testing.assert_allclose(net.norm._vars["mean"].read().reshape(-1), theirs[1].running_mean, atol=1e-4)
    assert len(optimizer._programs._programs) == 2
    assert optimizer.steps == 6


def _one(value: float) -> tuple[Any, Any]:
    """A trainable and a loss whose gradient by it is 3."""
    p = expr.const([value], [1])
    p.fix_as_trainable()
    return p, lambda: apply("ReduceSum", p * 3.0, axes=None, keepdims=False)


@pytest.mark.parametrize(
    ("method", "extra"), [(optim.L1, 0.1), (optim.L2, 0.1 * -2), (optim.L1L2, 0.1 * -2 - 0.1)], ids=str
)
def test_regularization_is_added_to_the_gradient(method: Any, extra: float) -> None:
    p, loss = _one(-2.0)
    optim.SGD([p], 0.5, 0.0, 0.1, method).step(loss())
    if method is optim.L1:
        extra = -extra
    np.testing.assert_allclose(p.read(), [-2 - 0.5 * (3 + extra)], rtol=1e-6)


def test_momentum_has_the_learning_rate_in_it() -> None:
    p, loss = _one(1.0)
    optimizer = optim.SGD([p], 0.5, 0.5)
    optimizer.step(loss())
    optimizer.learning_rate = 0.1
    optimizer.step(loss())
    np.testing.assert_allclose(p.read(), [1 - 1.5 - (0.3 + 0.75)], rtol=1e-6)
    assert len(optimizer._programs._programs) == 1, "a setting is no part of a program"


def test_adam_corrects_the_bias_in_the_rate() -> None:
    p, loss = _one(1.0)
    optimizer = optim.ADAM([p], 0.1, eps=0.5)
    value = m = v = 0.0
    value = 1.0
    for t in (1, 2, 3):
        optimizer.step(loss())
        m, v = 0.9 * m + 0.1 * 3, 0.999 * v + 0.001 * 9
        value -= 0.1 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (math.sqrt(v) + 0.5)
        np.testing.assert_allclose(p.read(), [value], rtol=1e-5)


def test_a_graph_that_is_made_once() -> None:
    """Placeholders are written anew; the loss is the same Var."""
    rng = np.random.default_rng(1)
    x, t = expr.placeholder([4, 3]), expr.placeholder([4, 2])
    layer = nn.linear(3, 2)
    loss = nn.loss.mse(layer(x), t)
    optimizer = optim.SGD(layer, 0.1, 0.5)
    w = rng.standard_normal((2, 3)).astype(np.float32)
    seen = []
    for _ in range(60):
        a = rng.standard_normal((4, 3)).astype(np.float32)
        x.write(a)
        t.write(a @ w.T)
        optimizer.step(loss)
        seen.append(loss.read().item())
    assert seen[-1] < 1e-3 * seen[0]
    np.testing.assert_allclose(layer._vars["weight"].read(), w, atol=0.02)
    assert len(optimizer._programs._programs) == 1
    x.write(np.zeros((4, 3), np.float32))
    t.write(np.full((4, 2), 2, np.float32))
    assert loss.read().item() > 5, "computed anew of what was written"


def test_a_parameter_that_the_user_writes_is_the_one_that_is_trained() -> None:
    p, loss = _one(1.0)
    optimizer = optim.SGD([p], 1.0, 0.0)
    optimizer.step(loss())
    p.write([10.0])
    optimizer.step(loss())
    np.testing.assert_allclose(p.read(), [7.0])


def test_frozen_weights_stay() -> None:
    rng = np.random.default_rng(2)
    first, second = nn.linear(3, 4), nn.linear(4, 2)
    before = [v.read() for v in (*first.parameters, *second.parameters)]
    x, t = rng.standard_normal((5, 3)).astype(np.float32), np.eye(2, dtype=np.float32)[rng.integers(0, 2, 5)]
    loss = nn.loss.mse(second(relu(first(Var.from_array(x)))), Var.from_array(t))
    optim.SGD(second, 0.1).step(loss)
    after = [v.read() for v in (*first.parameters, *second.parameters)]
    assert [bool(np.array_equal(a, b)) for a, b in zip(before, after, strict=True)] == [True, True, False, False]


def relu(x: Any) -> Any:
    return apply("Relu", x)


def test_dropout_is_other_in_each_step() -> None:
    drop = nn.dropout(0.5)
    p = expr.const(np.ones(64, np.float32), [64])
    p.fix_as_trainable()
    changed = []
    optimizer = optim.SGD([p], 1.0, 0.0)
    for _ in range(3):
        old = p.read()
        optimizer.step(apply("ReduceSum", drop(p), axes=None, keepdims=False))
        changed.append(old - p.read())
    for moved in changed:
        assert set(np.unique(moved)) == {0.0, 2.0}
    assert not np.array_equal(changed[0], changed[2])


def test_a_schedule_sets_the_rate() -> None:
    optimizer = optim.SGD([_one(1.0)[0]], 0.8)
    steps = optim.StepSchedule(optimizer, 2, 0.5)
    assert [round(steps.step(), 6) for _ in range(4)] == [0.8, 0.4, 0.4, 0.2]
    optimizer.learning_rate = 1.0
    cosine = optim.CosineSchedule(optimizer, 6, warmup=2, least=0.1)
    rates = [optimizer.learning_rate, *(cosine.step() for _ in range(6))]
    np.testing.assert_allclose(rates[:3], [1 / 3, 2 / 3, 1.0])
    assert rates[-1] == pytest.approx(0.1)
    assert sorted(rates[2:], reverse=True) == rates[2:]
    optimizer.learning_rate = 1.0
    assert optim.ExponentialSchedule(optimizer, 0.9).step() == pytest.approx(0.9)


def test_gradients_as_vars() -> None:
    x = expr.placeholder([3])
    y = apply("Exp", x) * 2.0
    _, (by_x,) = optim.Grad().grad([y], [Var.from_array(np.array([1, 0, 2], np.float32))], [x])
    x.write([0.0, 1.0, 0.5])
    np.testing.assert_allclose(by_x.read(), 2 * np.exp([0, 1, 0.5]) * [1, 0, 2], rtol=1e-6)
    _, (by_x,) = optim.Grad().grad(y, Var.from_array(np.array([1, 0, 2], np.float32)), x)
    np.testing.assert_allclose(by_x.read(), 2 * np.exp([0, 1, 0.5]) * [1, 0, 2], rtol=1e-6)
    p, loss = _one(1.0)
    _, (slope,) = optim.Grad().grad(loss(), None, p)
    _, (new,) = optim.SGD([p], 0.5).get_update_graph([p], [slope])
    np.testing.assert_allclose(new.read(), [1 - 1.5])
    _, (new,) = optim.ADAM([p], 0.5).get_update_graph([p], [slope], [Var(np.float32(0.1))])
    np.testing.assert_allclose(new.read(), [1 - 0.1], rtol=1e-5)


def test_a_file_with_updates_is_a_loop_without_the_optimizer(tmp_path: Path) -> None:
    """The steps of a file, each with the parameter that the one before gave, are those of the optimizer."""
    p, x = expr.const([1.0, -2.0], [2]), expr.placeholder([2])
    p.fix_as_trainable()
    p.name, x.name = "p", "x"
    x.write([3.0, 4.0])
    loss = apply("ReduceSum", p * p * x, axes=None, keepdims=False)
    loss.name = "loss"
    optimizer = optim.SGD([p], 0.01, 0.0)
    parameters, slopes = optimizer.grad(loss, None, p)
    _, updates = optimizer.get_update_graph(parameters, slopes)
    path = tmp_path / "update.mnn"
    optimizer.save_graph(path, [loss], parameters, updates)
    session = minnow.load(path)
    assert {t.name for t in session.inputs} == {"p", "x"}
    value = p.read()
    for _ in range(3):
        found = session.run({"p": value, "x": np.array([3, 4], np.float32)})
        optimizer.step(loss)
        np.testing.assert_allclose(found["loss"], loss.read(), rtol=1e-6)
        value = found["p:new"]
        np.testing.assert_allclose(value, p.read(), rtol=1e-6)
    np.testing.assert_allclose(value, [1 * 0.94**3, -2 * 0.92**3], rtol=1e-6)
    with pytest.raises(UsageError, match="1 updates for 2 parameters"):
        optimizer.save_graph(path, [], [p, p], updates)


def test_what_cannot_be_trained_is_said() -> None:
    p, loss = _one(1.0)
    optimizer = optim.SGD([p])
    for bad in (1.0, None, [loss()]):
        with pytest.raises(UsageError, match="not a Var"):
            optimizer.step(bad)
    with pytest.raises(UsageError, match="the loss is a constant"):
        optimizer.step(Var(np.float32(1)))
    with pytest.raises(UsageError, match="no value yet"):
        optimizer.step(apply("ReduceSum", p * expr.placeholder([1]), axes=None, keepdims=False))
    sorted_out = apply("Unique", p, n_outputs=4)[0]
    with pytest.raises(UnsupportedError, match="Unique has no gradient"):
        optimizer.step(apply("ReduceSum", sorted_out, axes=None, keepdims=False))
    with pytest.raises(UsageError, match="no parameter to train"):
        optim.SGD([Var([1.0])]) and optim.SGD(nn.dropout(0.5)).step(loss())
    with pytest.raises(UsageError, match="has no module"):
        optim.Grad().step(loss())


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", "x"), ("learning_rate", -1), ("momentum", 1.5), ("eps", True), ("momentum2", float("nan"))],
)
def test_settings_are_checked_when_they_are_set(name: str, value: Any) -> None:
    optimizer = optim.ADAM([_one(1.0)[0]])
    with pytest.raises(UsageError, match=name):
        setattr(optimizer, name, value)
    with pytest.raises(UsageError, match="regularization_method"):
        optimizer.regularization_method = "L2"
