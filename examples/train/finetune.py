"""Gives a network from a `.mnn` file a new last layer, and trains it for other classes.

    python examples/train/finetune.py                         # writes new_digits.mnn beside this file
    python examples/train/finetune.py --model mobilenet.mnn --input image --features features

Without a model, a small MobileNet is trained on the digits 0 to 4 first, and written to a file. Its new layer learns
the digits 5 to 9: at first alone, then together with all layers in front of it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import minnow
from minnow import data, expr, nn, optim

HERE = Path(__file__).parent
BATCH = 50


class MobileNet(nn.Module):
    """[N, 1, 16, 16] -> features [N, 64], and the probabilities of the classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2)]
        self.stem, self.norm = conv(1, 8, 3, 2), nn.batch_norm(8, momentum=0.9)
        self.blocks = [Block(*width) for width in widths]
        for i, block in enumerate(self.blocks):
            setattr(self, f"block{i}", block)
        self.last = nn.linear(64, classes)

    def features(self, x: Any) -> Any:
        x = expr.relu6(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return expr.reduce_mean(x, [2, 3])

    def forward(self, x: Any) -> Any:
        return expr.softmax(self.last(self.features(x)), 1)


class Block(nn.Module):
    """A depthwise convolution, and one of 1 x 1."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.depthwise, self.norm1 = conv(c_in, c_in, 3, stride, depthwise=True), nn.batch_norm(c_in, momentum=0.9)
        self.pointwise, self.norm2 = conv(c_in, c_out, 1), nn.batch_norm(c_out, momentum=0.9)

    def forward(self, x: Any) -> Any:
        x = expr.relu6(self.norm1(self.depthwise(x)))
        return expr.relu6(self.norm2(self.pointwise(x)))


def conv(c_in: int, c_out: int, kernel: int, stride: int = 1, depthwise: bool = False) -> Any:
    return nn.conv(c_in, c_out, kernel, stride, depthwise=depthwise, bias=False, padding_mode=expr.SAME)


class Labelled(data.Dataset):
    def __init__(self, images: Any, labels: Any, classes: int) -> None:
        self.images, self.targets = images, np.eye(classes, dtype=np.float32)[labels]

    def __getitem__(self, index: int) -> Any:
        return [self.images[index]], [self.targets[index]]

    def __len__(self) -> int:
        return len(self.images) // BATCH * BATCH


def digits(chosen: Sequence[int]) -> Any:
    """Images [N, 1, 16, 16] of some digits, and their labels from 0; for training, and for the test."""
    everything = load_digits()
    kept = np.isin(everything.target, chosen)
    images = (everything.images[kept, None] / 16).repeat(2, 2).repeat(2, 3).astype(np.float32)
    labels = everything.target[kept] - min(chosen)
    return images[::2], labels[::2], images[1::2], labels[1::2]


def steps(optimizer: Any, loader: Any, loss_of: Any, epochs: int) -> float:
    """Trains; gives the mean loss of the last epoch."""
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for (images,), (targets,) in loader:
            loss = loss_of(images, targets)
            optimizer.step(loss)
            total += loss.read().item()
    return total / loader.iter_number


def pretrain(path: Path, epochs: int) -> None:
    """Writes a network that knows the digits 0 to 4."""
    x, y, _, _ = digits(range(5))
    net = MobileNet(5)
    loader = data.DataLoader(Labelled(x, y, 5), BATCH)
    loss = steps(optim.ADAM(net, 3e-3), loader, lambda x, t: nn.loss.cross_entropy(net(x), t), epochs)
    print(f"digits 0 to 4: loss {loss:.4f}")
    net.train(False)
    image = expr.placeholder([-1, 1, 16, 16])
    image.name = "image"
    features = net.features(image)
    features.name = "features"
    save([features], path)


def save(outputs: Any, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, path.name)
        expr.save(outputs, source)
        minnow.convert(source, output=path)


def constants(var: Any) -> Any:
    """The weights that a Var is computed of."""
    seen, stack = {}, [var]
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            stack += one.inputs
    return [v for v in seen.values() if v.op_type == "Const" and v.dtype == expr.float and v.size > 4]


def fine_tune(model: Path, input: str, features: str, output: Path, sets: Any, classes: int, epochs: int) -> Any:
    """Trains a new last layer behind the features of a model, then all weights; writes the new model.

    Returns:
        The losses of both.
    """
    x, y = sets
    known = expr.load_as_dict(str(model))
    image, found = known[input], known[features]
    width = found.shape[-1]
    last = nn.linear(width, classes)
    probability = expr.softmax(last(expr.reshape(found, [-1, width])), 1)
    target = expr.placeholder([-1, classes])
    loss = nn.loss.cross_entropy(probability, target)
    loader = data.DataLoader(Labelled(x, y, classes), BATCH)

    def loss_of(images: Any, targets: Any) -> Any:
        image.write(images.read())
        target.write(targets.read())
        return loss

    head = steps(optim.ADAM(last, 1e-2), loader, loss_of, epochs)
    print(f"the last layer: loss {head:.4f}")
    weights = constants(found)
    for weight in weights:
        weight.fix_as_trainable()
    everything = steps(optim.ADAM([*last.parameters, *weights], 3e-3), loader, loss_of, epochs)
    print(f"all layers: loss {everything:.4f}")
    image.resize([-1, *image.shape[1:]])
    probability.name = "probability"
    save([probability], output)
    return head, everything


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--input", default="image")
    parser.add_argument("--features", default="features")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the files")
    options = parser.parse_args()

    np.random.seed(0)
    expr.lazy_eval(True)
    model = options.model or options.out / "mobilenet.mnn"
    if options.model is None:
        pretrain(model, options.epochs)
    x, y, x_test, y_test = digits(range(5, 10))
    output = options.out / "new_digits.mnn"
    fine_tune(model, options.input, options.features, output, (x, y), 5, options.epochs)
    found = minnow.load(output).run({options.input: x_test})["probability"].argmax(axis=1)
    print(f"{output.name}: accuracy {np.mean(found == y_test):.2%} of {len(y_test)} images of the digits 5 to 9")


if __name__ == "__main__":
    main()
