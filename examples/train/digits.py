"""Trains a small convolutional network on scikit-learn's handwritten digits, and writes it as a `.mnn` file.

    python examples/train/digits.py                  # about 20 seconds; writes digits.mnn beside this file
    python examples/train/digits.py --quantize       # goes on with weights and inputs of 8 bits: digits_int8.mnn, too

Needs scikit-learn for the data.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import minnow
from minnow import data, expr, nn, optim
from minnow.nn import compress

HERE = Path(__file__).parent


class Net(nn.Module):
    """[N, 1, 8, 8] in 0..1 -> the probabilities of the digits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        same = {"padding_mode": expr.SAME, "bias": False}
        self.conv1, self.norm1 = nn.conv(1, 16, 3, **same), nn.batch_norm(16, momentum=0.9)
        self.conv2, self.norm2 = nn.conv(16, 16, 3, depthwise=True, **same), nn.batch_norm(16, momentum=0.9)
        self.conv3, self.norm3 = nn.conv(16, 32, 1, **same), nn.batch_norm(32, momentum=0.9)
        self.conv4, self.norm4 = nn.conv(32, 64, 3, **same), nn.batch_norm(64, momentum=0.9)
        self.fc = nn.linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = expr.relu(self.norm1(self.conv1(x)))
        x = expr.relu(self.norm2(self.conv2(x)))
        x = expr.relu(self.norm3(self.conv3(x)))
        x = expr.max_pool(x, [2, 2], [2, 2])
        x = expr.relu(self.norm4(self.conv4(x)))
        return expr.softmax(self.fc(expr.reduce_mean(x, [2, 3])), 1)


class Digits(data.Dataset):
    def __init__(self, images: Any, labels: Any) -> None:
        self.images, self.targets = images, np.eye(10, dtype=np.float32)[labels]

    def __getitem__(self, index: int) -> Any:
        return [self.images[index]], [self.targets[index]]

    def __len__(self) -> int:
        return len(self.images)


def digits() -> Any:
    """Images and labels for training, then those for the test."""
    all_digits = load_digits()
    images = (all_digits.images[:, None] / 16).astype(np.float32)
    x, x_test, y, y_test = train_test_split(
        images, all_digits.target, test_size=0.2, random_state=0, stratify=all_digits.target
    )
    return x, y, x_test, y_test


def train(net: Any, loader: Any, epochs: int, rate: float) -> Iterator[float]:
    """Trains with cross-entropy and Adam; the learning rate falls along half a cosine. Gives the loss of each epoch."""
    optimizer = optim.ADAM(net, rate, 0.9, 0.99)
    schedule = optim.CosineSchedule(optimizer, epochs * loader.iter_number)
    net.train(True)
    for _ in range(epochs):
        total = 0.0
        for (images,), (targets,) in loader:
            loss = nn.loss.cross_entropy(net(images), targets)
            optimizer.step(loss)
            schedule.step()
            total += loss.read().item()
        yield total / loader.iter_number
    net.train(False)


def show(losses: Iterator[float]) -> None:
    start = time.perf_counter()
    for epoch, loss in enumerate(losses):
        print(f"epoch {epoch + 1}: loss {loss:.4f}, {time.perf_counter() - start:.1f} s")


def save(net: Any, path: Path) -> None:
    """Writes a network for use, with a batch of any size, as smaller and faster nodes."""
    image = expr.placeholder([-1, 1, 8, 8])
    image.name = "image"
    probability = net(image)
    probability.name = "probability"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, path.name)
        expr.save([probability], source)
        minnow.convert(source, output=path)


def accuracy(path: Path, images: Any, labels: Any) -> float:
    found = minnow.load(path).run({"image": images})["probability"].argmax(axis=1)
    return float(np.mean(found == labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quantize", action="store_true", help="go on with weights and inputs of 8 bits")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the files")
    options = parser.parse_args()

    np.random.seed(0)
    expr.lazy_eval(True)  # an optimizer needs the graph behind the loss
    x, y, x_test, y_test = digits()
    loader = data.DataLoader(Digits(x, y), batch_size=64)
    net = Net()
    show(train(net, loader, options.epochs, rate=3e-3))
    path = options.out / "digits.mnn"
    save(net, path)
    print(f"{path.name}: accuracy {accuracy(path, x_test, y_test):.2%} of {len(x_test)} images")

    if options.quantize:
        compress.train_quant(net)
        show(train(net, loader, max(1, options.epochs // 4), rate=3e-4))
        compress.finish(net)  # plain layers with the weights that integers will have
        rounded, small = options.out / "digits_rounded.mnn", options.out / "digits_int8.mnn"
        save(net, rounded)
        minnow.quantize(rounded, output=small, calibration={"image": x[:256]})
        print(f"{small.name}: accuracy {accuracy(small, x_test, y_test):.2%}, {small.stat().st_size} bytes")


if __name__ == "__main__":
    main()
