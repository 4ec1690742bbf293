"""`load_module`: graphs of files as modules that can be trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow import expr, nn, optim
from minnow.errors import UsageError
from minnow.expr import Var
from minnow.nn import loss

from .test_loaded_module import IMAGE, LAST, ONE, classifier

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.mnn"
    path.write_bytes(classifier())
    return path


@pytest.fixture(params=[False, True], ids=["at once", "lazy"])
def lazy(request: pytest.FixtureRequest) -> Any:
    expr.lazy_eval(request.param)
    yield request.param
    expr.lazy_eval(False)


def loaded(path: Path, for_training: bool, output: str = "prob") -> nn.Module:
    found = expr.load_as_dict(str(path))
    inputs = [found["data"]] if output == "map" else [found["data"], found["scale"]]
    return nn.load_module(inputs, [found[output]], for_training)


@pytest.mark.parametrize("for_training", [False, True])
def test_a_graph_gives_what_the_file_gives(path: Path, for_training: bool, lazy: bool) -> None:
    net = loaded(path, for_training)
    want = minnow.load(path).run({"data": IMAGE, "scale": ONE})["prob"]
    for image in (
        Var(IMAGE),
        expr.convert(Var.from_array(LAST, expr.NHWC), expr.NC4HW4),
        Var.from_array(LAST[0], expr.NHWC),
    ):
        (got,) = net.forward([image, Var(ONE)])
        np.testing.assert_allclose(got.read(), want, rtol=1e-4, atol=1e-5)
    assert len(net.trainables) == (2 if for_training else 0)
    assert len(net.parameters) == len(net.trainables)
    (got,) = net.clone().forward([IMAGE, ONE])
    np.testing.assert_allclose(got.read(), want, rtol=1e-4, atol=1e-5)


def test_a_part_of_a_graph(path: Path) -> None:
    found = expr.load_as_dict(str(path))
    image = loaded(path, False, "map")(IMAGE)
    rest = nn.load_module([found["map"], found["scale"]], [found["prob"]], False)
    want = minnow.load(path).run({"data": IMAGE, "scale": ONE})["prob"]
    np.testing.assert_allclose(rest([image, ONE])[0].read(), want, rtol=1e-4, atol=1e-5)


def test_a_head_is_trained_on_a_frozen_graph(path: Path, tmp_path: Path) -> None:
    """What programs for MNN do to fine-tune: the features stay as they are, the head learns, the whole is saved."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = loaded(path, False, "map")
            self.head = nn.conv(5, 2, [1, 1])

        def forward(self, x: Any) -> Any:
            x = expr.convert(self.head(self.features(x)), expr.NCHW)
            return expr.softmax(expr.reduce_mean(x, [2, 3]), 1)

    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 32)
    images = rng.random((32, 3, 12, 10), np.float32) * np.where(label, 2, 0.5).astype(np.float32)[:, None, None, None]
    expr.lazy_eval(True)
    try:
        np.random.seed(0)
        net = Net()
        optimizer = optim.ADAM(net, 0.05)
        for _ in range(60):
            target = expr.one_hot(Var(label.astype(np.int32)), 2, 1.0, 0.0)
            value = loss.cross_entropy(net.forward(expr.convert(Var(images), expr.NC4HW4)), target)
            optimizer.step(value)
        net.train(False)
        assert float(value.read()) < 0.4
        x = expr.placeholder([1, 3, 12, 10], expr.NC4HW4)
        x.name = "input"
        y = net.forward(x)
        y.name = "prob"
        expr.save([y], str(tmp_path / "trained.mnn"))
        want = net(Var(images[:1])).read()
    finally:
        expr.lazy_eval(False)
    got = nn.load_module_from_file(str(tmp_path / "trained.mnn"), ["input"], ["prob"])
    np.testing.assert_allclose(got(images[:1]).read(), want, rtol=1e-4, atol=1e-5)


def test_all_weights_are_trained(path: Path) -> None:
    expr.lazy_eval(True)
    try:
        net = loaded(path, True)
        before = [p.read() for p in net.parameters]
        optimizer = optim.SGD(net, 0.001, 0.0, 0.0)
        losses = []
        for _ in range(10):
            (got,) = net.forward([Var(IMAGE), Var(ONE)])
            value = loss.mse(got, Var(np.zeros((1, 7), np.float32)))
            optimizer.step(value)
            losses.append(float(value.read()))
    finally:
        expr.lazy_eval(False)
    assert losses[-1] < 0.5 * losses[0]
    assert all((p.read() != old).any() for p, old in zip(net.parameters, before, strict=True))


def test_wrong_calls_are_errors(path: Path) -> None:
    found = expr.load_as_dict(str(path))
    with pytest.raises(UsageError, match="need the input 'scale'"):
        nn.load_module([found["data"]], [found["prob"]], False)
    for inputs, outputs in ((3, [found["prob"]]), ([], [found["prob"]]), ([found["data"]], ["prob"])):
        with pytest.raises(UsageError, match="a list of Vars"):
            nn.load_module(inputs, outputs, False)
    net = loaded(path, False)
    with pytest.raises(UsageError, match="the graph has 2"):
        net.forward(IMAGE)
    with pytest.raises(UsageError, match="channels"):
        net.forward([IMAGE[:, :2], ONE])
