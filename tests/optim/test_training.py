"""The examples that train: a few steps every day, and wholly, beside the same program in PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oracles import mnn_oracle

import minnow
from minnow import data, expr, nn, optim
from minnow.nn import compress
from minnow.schema.errors import UsageError

ROOT = Path(__file__).parents[2]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"train_{name}", ROOT / "examples" / "train" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def digits() -> Any:
    return example("digits")


def test_a_few_steps_and_a_file(digits: Any, tmp_path: Path) -> None:
    x, y, x_test, y_test = digits.digits()
    net = digits.Net()
    loader = data.DataLoader(digits.Digits(x[:256], y[:256]), 64)
    losses = list(digits.train(net, loader, 6, 3e-3))
    assert losses[-1] < 0.7 * losses[0]
    digits.save(net, tmp_path / "digits.mnn")
    assert digits.accuracy(tmp_path / "digits.mnn", x_test, y_test) > 0.5  # by chance 0.1
    x_some = x_test[:7]
    got = minnow.load(tmp_path / "digits.mnn").run({"image": x_some})["probability"]
    np.testing.assert_allclose(got, net(expr.const(x_some, x_some.shape)).read(), atol=1e-5)


def test_a_few_steps_with_rounded_weights(digits: Any) -> None:
    x, y, _, _ = digits.digits()
    net = digits.Net()
    assert compress.train_quant(net) is net
    losses = list(digits.train(net, data.DataLoader(digits.Digits(x[:128], y[:128]), 64), 6, 3e-3))
    assert losses[-1] < losses[0]
    weight = net.conv4.layer._vars["weight"].read()
    compress.finish(net)
    after = net.conv4._vars["weight"].read()
    steps = np.abs(weight).max((1, 2, 3), keepdims=True) / 127
    np.testing.assert_allclose(after / steps, np.rint(weight / steps), atol=1e-3)


def _stepped(x: Any, scale: Any, zero: Any) -> Any:
    return (np.clip(np.rint(x / scale) + zero, -128, 127) - zero) * scale


@pytest.mark.parametrize("bits", [8, 4])
def test_a_layer_computes_with_steps(bits: int) -> None:
    rng = np.random.default_rng(6)
    first, second = (rng.standard_normal((6, 4)).astype(np.float32) + 0.5 for _ in range(2))
    layer = compress.train_quant(nn.linear(4, 3), bits, "max")
    for batch in (first, second):
        layer(expr.const(batch, batch.shape))
    layer.train(False)
    low, high = (min(first.min(), second.min()), max(first.max(), second.max()))
    scale = (high - low) / 255
    weight = layer.layer._vars["weight"].read()
    steps = np.abs(weight).max(1, keepdims=True) / (2 ** (bits - 1) - 1)
    expected = _stepped(first, scale, np.rint(-128 - low / scale)) @ _stepped(weight, steps, 0).T
    np.testing.assert_allclose(layer(expr.const(first, first.shape)).read(), expected, atol=1e-4)
    assert not np.allclose(expected, first @ weight.T, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((3,), "no module"), ((None, 9), "no module"), ((nn.linear(2, 2), 9), "quant_bits is 9"),
     ((nn.linear(2, 2), 8, "mean"), "scale_method"), ((nn.dropout(0.5),), "no convolution")],
)  # fmt: skip
def test_what_cannot_be_rounded(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        compress.train_quant(*arguments)


@mnn_oracle.needs_mnn
def test_mnn_runs_a_trained_file(digits: Any, tmp_path: Path) -> None:
    x, y, x_test, _ = digits.digits()
    net = digits.Net()
    list(digits.train(net, data.DataLoader(digits.Digits(x[:128], y[:128]), 64), 3, 3e-3))
    path = tmp_path / "digits.mnn"
    digits.save(net, path)
    inputs = {"image": x_test[:5]}
    (answer,) = mnn_oracle.run([mnn_oracle.File(path.read_bytes(), inputs, ["probability"])], tmp_path / "mnn")
    assert answer.outputs is not None, answer.log
    np.testing.assert_allclose(answer.outputs[0], minnow.load(path).run(inputs)["probability"], atol=1e-5)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch's threads wait for each other on a busy machine, where the network is too small to gain from them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_digits_as_well_as_pytorch(digits: Any, tmp_path: Path, one_thread: None) -> None:
    """From the same weights with batches of the same order; bench/training.py times the same."""
    from oracles import torch_digits

    x, y, x_test, y_test = digits.digits()
    net, theirs = digits.Net(), torch_digits.network()
    torch_digits.take_weights(theirs, net)
    sets = digits.Digits(x, y)
    runs: list[Any] = [
        digits.train(net, data.DataLoader(sets, 64), 20, 3e-3),
        torch_digits.train(theirs, data.DataLoader(sets, 64), 20, 3e-3),
    ]
    for epoch in range(21):  # the last one finishes
        for run in runs:
            np.random.seed(epoch)
            next(run, None)
    path = tmp_path / "digits.mnn"
    digits.save(net, path)
    got, want = digits.accuracy(path, x_test, y_test), torch_digits.accuracy(theirs, x_test, y_test)
    assert got > 0.97
    assert got >= want - 0.005, (got, want)

    compress.train_quant(net)
    list(digits.train(net, data.DataLoader(sets, 64), 5, 3e-4))
    compress.finish(net)
    digits.save(net, tmp_path / "rounded.mnn")
    minnow.quantize(tmp_path / "rounded.mnn", output=tmp_path / "int8.mnn", calibration={"image": x[:256]})
    small = digits.accuracy(tmp_path / "int8.mnn", x_test, y_test)
    assert small >= got - 0.002, (small, got)
    assert (tmp_path / "int8.mnn").stat().st_size < 0.5 * path.stat().st_size


def test_a_new_layer_for_a_network_from_a_file(tmp_path: Path) -> None:
    """A MobileNet that is written, converted and loaded: its last layer is trained, then all of its weights."""
    script = example("finetune")
    net = script.MobileNet(5)
    net.train(False)
    for part in (v for m in net.modules() for v in m._statistics()[:1]):
        part.write(np.ones(part.shape, np.float32))
    image = expr.placeholder([-1, 1, 16, 16])
    image.name = "image"
    features = net.features(image)
    features.name = "features"
    script.save([features], tmp_path / "net.mnn")
    x, y, x_test, _ = script.digits(range(5, 10))
    output = tmp_path / "new.mnn"
    head, everything = script.fine_tune(tmp_path / "net.mnn", "image", "features", output, (x[:100], y[:100]), 5, 2)
    assert everything < head
    assert minnow.load(output).run({"image": x_test[:7]})["probability"].shape == (7, 5)


@pytest.mark.slow
def test_a_converted_mobilenet_learns_as_in_pytorch(tmp_path: Path, one_thread: None) -> None:
    """A network of PyTorch, converted: the losses of its last layer, then of all layers, are those of PyTorch, and so
    is what the file that is written gives."""
    import torch
    from torch import nn as tnn

    torch.manual_seed(0)

    def block(c_in: int, c_out: int, stride: int) -> list[Any]:
        depthwise = tnn.Conv2d(c_in, c_in, 3, stride, 1, groups=c_in)
        return [depthwise, tnn.ReLU6(), tnn.Conv2d(c_in, c_out, 1), tnn.ReLU6()]

    backbone = tnn.Sequential(
        tnn.Conv2d(1, 16, 3, 2, 1), tnn.ReLU6(), *block(16, 32, 1), *block(32, 64, 2),
        tnn.AdaptiveAvgPool2d(2), tnn.Flatten(),
    ).eval()  # fmt: skip
    for layer in backbone:
        if isinstance(layer, tnn.Conv2d):  # wide enough that features differ
            tnn.init.kaiming_normal_(layer.weight)
    script = example("finetune")
    x, y, x_test, y_test = script.digits(range(5, 10))
    file = tmp_path / "backbone.onnx"
    torch.onnx.export(
        backbone, (torch.from_numpy(x[:1]),), str(file), input_names=["image"], output_names=["features"],
        dynamic_axes={"image": {0: "N"}}, dynamo=False,
    )  # fmt: skip
    minnow.convert(file, output=tmp_path / "backbone.mnn")

    known = expr.load_as_dict(str(tmp_path / "backbone.mnn"))
    image, found = known["image"], known["features"]
    last, target = nn.linear(256, 5), expr.placeholder([-1, 5])
    probability = expr.softmax(last(expr.reshape(found, [-1, 256])), 1)
    loss = nn.loss.cross_entropy(probability, target)
    head = tnn.Linear(256, 5)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(last._vars["weight"].read()))
        head.bias.zero_()
    theirs = tnn.Sequential(backbone, head)
    images, labels, hot = torch.from_numpy(x), torch.from_numpy(y), np.eye(5, dtype=np.float32)[y]

    def curves(optimizer: Any, other: Any, steps: int) -> tuple[list[float], list[float]]:
        ours, wanted = [], []
        for _ in range(steps):
            image.write(x)
            target.write(hot)
            optimizer.step(loss)
            ours.append(loss.read().item())
            other.zero_grad()
            value = tnn.functional.cross_entropy(theirs(images), labels)
            value.backward()
            other.step()
            wanted.append(value.item())
        return ours, wanted

    ours, wanted = curves(optim.Adam(last, 0.02), torch.optim.Adam(head.parameters(), 0.02), 60)
    assert ours[-1] < 0.6 * ours[0]
    np.testing.assert_allclose(ours, wanted, rtol=5e-3)
    weights = script.constants(found)
    assert sum(w.size for w in weights) == sum(p.numel() for p in backbone.parameters())
    for weight in weights:
        weight.fix_as_trainable()
    every = optim.Adam([*last.parameters, *weights], 1e-3)
    ours, wanted = curves(every, torch.optim.Adam(theirs.parameters(), 1e-3), 15)
    assert ours[-1] < 0.9 * ours[0]
    np.testing.assert_allclose(ours, wanted, rtol=2e-2)

    image.resize([-1, 1, 16, 16])
    probability.name = "probability"
    script.save([probability], tmp_path / "tuned.mnn")
    got = minnow.load(tmp_path / "tuned.mnn").run({"image": x_test})["probability"]
    with torch.no_grad():
        want = torch.softmax(theirs(torch.from_numpy(x_test)), 1).numpy()
    np.testing.assert_allclose(got, want, atol=0.03)
    accuracy, theirs_accuracy = (float(np.mean(p.argmax(1) == y_test)) for p in (got, want))
    assert accuracy > 0.6
    assert abs(accuracy - theirs_accuracy) <= 0.01, (accuracy, theirs_accuracy)
    net = minnow.Interpreter(str(tmp_path / "tuned.mnn"))
    session = net.createSession()
    net.resizeTensor(net.getSessionInput(session), x_test[:3].shape)
    net.resizeSession(session)
    net.getSessionInput(session).getNumpyData()[...] = x_test[:3]
    net.runSession(session)
    np.testing.assert_allclose(net.getSessionOutput(session).getNumpyData(), got[:3], atol=1e-5)
