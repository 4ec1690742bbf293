"""Modules and layers, checked against PyTorch, and against what MNN 3.6.1 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from minnow import expr, nn
from minnow.errors import UsageError
from minnow.expr import Var

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _eager() -> Any:
    yield
    expr.lazy_eval(False)


def randoms(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a1 = Var([1.0])
        self.k1 = nn.linear(2, 2)
        self.a2 = Var([2.0])
        self.k2 = nn.linear(3, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = Var([3])
        self.block = Block()
        self.rate = Var([4.0])
        self.fc = nn.linear(5, 5)
        self.rate.fix_as_trainable()

    def forward(self, x: Any) -> Any:
        return self.fc(x)


def test_parameters_are_in_the_order_of_mnn() -> None:
    """Recorded with MNN 3.6.1: a file of parameters that it has saved fits a module of the same definition."""
    net = Net()
    assert [(p.name, p.shape) for p in net.parameters] == [
        ("step", [1]), ("rate", [1]), ("", [1, 5]), ("", [5, 5]), ("a1", [1]), ("a2", [1]),
        ("", [1, 3]), ("", [3, 3]), ("", [1, 2]), ("", [2, 2]),
    ]  # fmt: skip
    assert (net.block.name, net.block.k1.name, net.name) == ("block", "k1", "")
    assert [p.shape for p in nn.conv(3, 4, [3, 3]).parameters] == [[4], [4, 3, 3, 3]]
    assert [p.shape for p in nn.conv(4, 8, [3, 3], depthwise=True, bias=False).parameters] == [[8, 1, 3, 3]]
    assert [p.shape for p in nn.batch_norm(3).parameters] == [[1, 3, 1, 1]] * 4
    assert [p.shape for p in nn.batch_norm(3, 2).parameters] == [[1, 3]] * 4
    assert nn.dropout(0.5).parameters == []


def test_only_trainables_are_trained() -> None:
    net = Net()
    assert len(net.trainables) == 7
    assert all(p.op_type == "Trainable" for p in net.trainables)
    assert [list(p.read().ravel()) for p in nn.batch_norm(1).trainables] == [[1], [0]]


def test_what_is_assigned_anew_is_no_longer_a_part() -> None:
    net = Net()
    net.block = nn.linear(2, 3)
    net.rate = 0.5
    del net.step
    assert [p.shape for p in net.parameters] == [[1, 3], [3, 2], [1, 5], [5, 5]]


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [
        ({"stride": [2, 1]}, {"stride": (1, 2)}),  # width first
        ({"padding": [1, 2], "padding_mode": expr.CAFFE}, {"padding": (2, 1)}),
        ({"dilation": [1, 3]}, {"dilation": (3, 1)}),
        ({"padding": [1, 1]}, {"padding": 0}),
        ({"padding_mode": expr.SAME}, {"padding": "same"}),
        ({"dilation": 2}, {"dilation": 2}),
        ({"bias": False}, {"bias": False}),
    ],
)
def test_a_convolution_is_that_of_torch(arguments: dict[str, Any], reference: dict[str, Any]) -> None:
    layer = nn.conv(3, 4, [3, 3], **arguments)
    own = torch.nn.Conv2d(3, 4, 3, **reference)
    layer.load_parameters([p.detach().numpy() for p in reversed(list(own.parameters()))])
    x = randoms(2, 3, 9, 8)
    got = layer(Var(x))
    assert got.data_format is expr.NC4HW4
    np.testing.assert_allclose(got.read(), own(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    last = Var.from_array(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), expr.NHWC)
    np.testing.assert_allclose(layer(last).read(), got.read(), rtol=1e-4, atol=1e-5)


def test_a_depthwise_convolution_is_that_of_torch() -> None:
    layer = nn.conv(3, 6, 3, depthwise=True)
    own = torch.nn.Conv2d(3, 6, 3, groups=3)
    layer.load_parameters([own.bias.detach().numpy(), own.weight.detach().numpy()])
    x = randoms(1, 3, 5, 5)
    np.testing.assert_allclose(layer(x).read(), own(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3)])
def test_a_linear_layer_is_that_of_torch(shape: tuple[int, ...]) -> None:
    layer, own = nn.linear(3, 5), torch.nn.Linear(3, 5)
    layer.load_parameters([own.bias.detach().numpy()[None], own.weight.detach().numpy()])
    x = randoms(*shape)
    want = own(torch.from_numpy(x)).detach().numpy()
    got = layer(x).read()
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5, 2)])
def test_batch_normalization_is_that_of_torch(lazy: bool, shape: tuple[int, ...]) -> None:
    expr.lazy_eval(lazy)
    layer = nn.batch_norm(3, len(shape), momentum=0.9)
    own = (torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d)(3, momentum=0.1)
    torch.nn.init.zeros_(own.running_var)
    count = np.prod(shape) / 3
    for _ in range(3):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3 + 1
        got = layer(x)
        want = own(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(got.read(), want, rtol=1e-4, atol=1e-5)
    _, _, variance, mean = (p.read().ravel() for p in layer.parameters)
    np.testing.assert_allclose(mean, own.running_mean.numpy(), rtol=1e-5)
    # PyTorch collects the unbiased variance, MNN that of the batch.
    np.testing.assert_allclose(variance, own.running_var.numpy() * (count - 1) / count, rtol=1e-5)
    layer.train(False)
    own.running_var *= (count - 1) / count
    own.eval()
    np.testing.assert_allclose(layer(x).read(), own(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_batch_normalization_collects_what_mnn_collects() -> None:
    """Recorded with MNN 3.6.1."""
    layer = nn.batch_norm(1)
    x = Var(np.asarray([1, 2, 3, 6], np.float32).reshape(4, 1, 1, 1))
    layer(x)
    assert [round(float(p.read().item()), 5) for p in layer.parameters] == [1, 0, 0.035, 0.03]
    layer(x)
    assert [round(float(p.read().item()), 5) for p in layer.parameters] == [1, 0, 0.06965, 0.0597]
    layer.train(False)
    np.testing.assert_allclose(layer(x).read().ravel(), [3.5626645, 7.3515234, 11.140383, 22.50696], rtol=2e-6)


def test_new_statistics_can_be_computed_with_a_graph() -> None:
    expr.lazy_eval(True)
    layer = nn.batch_norm(2)
    x = expr.placeholder([4, 2, 3, 3])
    x.write(randoms(4, 2, 3, 3))
    layer(x)
    (variance, new), (mean, _) = layer.pending()
    assert variance.read().max() == 0
    np.testing.assert_allclose(new.read().ravel(), randoms(4, 2, 3, 3).var((0, 2, 3)), rtol=1e-4)
    layer.settle()
    np.testing.assert_allclose(variance.read(), 0.01 * new.read(), rtol=1e-6)
    assert layer.pending() == []
    assert mean.read().any()


def test_dropout_drops_in_training_only() -> None:
    layer = nn.dropout(0.25)
    x = Var(np.ones((100, 100), np.float32))
    got = layer(x).read()
    assert set(np.unique(got)) == {0, np.float32(1 / 0.75)}
    assert abs((got == 0).mean() - 0.25) < 0.02
    assert (layer(x).read() != got).any()
    layer.train(False)
    assert layer(x) is x


def test_weights_begin_as_in_mnn() -> None:
    weight = nn.conv(64, 128, [3, 3]).parameters[1].read()
    bound = np.sqrt(3 / (64 * 9))
    assert abs(weight).max() <= bound
    assert abs(weight.std() - bound / np.sqrt(3)) < 0.001


def test_a_clone_has_parameters_of_its_own() -> None:
    net = Net()
    net.extra = net.fc  # one module under two names
    copy = net.clone()
    assert isinstance(copy, Net)
    assert copy.extra is copy.fc is not net.fc
    x = randoms(2, 5)
    want = net(x).read()
    np.testing.assert_array_equal(copy(x).read(), want)
    copy.load_parameters([p.read() * 0 for p in copy.parameters])
    assert not copy(x).read().any()
    np.testing.assert_array_equal(net(x).read(), want)
    assert [p.op_type for p in copy.parameters] == [p.op_type for p in net.parameters]


def test_train_reaches_all_parts() -> None:
    net = Net()
    assert net.is_training
    net.train(False)
    assert not any(m.is_training for m in net.modules())
    net.train()
    assert net.block.k1.is_training


def test_on_forward_takes_and_gives_lists() -> None:
    net = Net()
    (result,) = net.onForward([Var(randoms(2, 5))])
    assert result.shape == [2, 5]
    assert nn.dummy() is None
    assert isinstance(nn.dummy, nn.EmptyModule)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.conv(0, 4, [3, 3]), "in_channel"),
        (lambda: nn.conv(3, 4, [3, 3, 3]), "kernel_size"),
        (lambda: nn.linear(2**20, 2**20), "too large"),
        (lambda: nn.conv(3, 4, "33"), "kernel_size"),
        (lambda: nn.conv(3, 4, [3, 3], padding=[-1, 0], padding_mode=expr.CAFFE), "padding"),
        (lambda: nn.conv(3, 4, [3, 3], padding_mode=1), "padding_mode"),
        (lambda: nn.conv(4, 6, [3, 3], depthwise=True), "depthwise"),
        (lambda: nn.conv(3, 4, [3, 3])(randoms(1, 4, 8, 8)), "3 channels"),
        (lambda: nn.conv(3, 4, [3, 3])(randoms(3, 8, 8)), "3 channels"),
        (lambda: nn.linear(3, 4)(randoms(2, 4)), "3 inputs"),
        (lambda: nn.linear(3.0, 4), "in_channel"),
        (lambda: nn.batch_norm(3)(randoms(2, 3)), "dims=2"),
        (lambda: nn.batch_norm(3, 3), "dims"),
        (lambda: nn.dropout(1), "nothing"),
        (lambda: nn.dropout("a"), "dropout_ratio"),
        (lambda: Net().load_parameters([]), "0 parameters"),
        (lambda: Net().load_parameters([randoms(1)] * 10), "parameter 0"),
        (lambda: nn.linear(2, 2).load_parameters([randoms(2, 2), randoms(2, 2)]), "shape"),
        (lambda: Net().load_parameters(None), "a list"),
        (lambda: Net().train("x"), "True or False"),
        (lambda: Net().get_info(), "file"),
        (lambda: Net().set_name(3), "a text"),
        (lambda: Net().onForward(None), "not a tensor"),
        (lambda: setattr(net := Net(), "fc", net), "part of itself"),
    ],
)
def test_a_wrong_call_is_an_error(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


def test_a_forgotten_init_is_an_error() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            self.fc = nn.linear(2, 2)

    class Never(nn.Module):
        def __init__(self) -> None:
            pass

    with pytest.raises(UsageError, match="super"):
        Late()
    with pytest.raises(UsageError, match="super"):
        _ = Never().parameters
    with pytest.raises(NotImplementedError, match="Block"):
        Block()(Var([1.0]))
