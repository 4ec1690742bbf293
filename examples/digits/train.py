"""Trains a small convolutional network on scikit-learn's handwritten digits and writes it as ONNX.

    python examples/digits/train.py      # writes digits.onnx and digits_test.npz beside this file; about a minute

The training uses numpy only, so that it runs in the development environment. A layer is a class with its forward pass,
its backward pass and its ONNX nodes. Everything is seeded: the same versions give the same file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Array = np.ndarray[Any, np.dtype[np.float32]]
HERE = Path(__file__).parent
random = np.random.default_rng(7)


class Layer(ABC):
    """Shapes are NCHW. `parameters` are trained; `backward` leaves one gradient for each in `gradients`."""

    parameters: list[Array] = []
    gradients: list[Array] = []

    @abstractmethod
    def forward(self, x: Array, training: bool) -> Array: ...

    @abstractmethod
    def backward(self, dy: Array) -> Array: ...

    @abstractmethod
    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        """The op, the inputs after the first, the attributes."""


class Conv(Layer):
    """`k` by `k`, "same" padding, no bias: a batch norm follows. depthwise = one filter for each channel."""

    def __init__(self, c_in: int, c_out: int, k: int, depthwise: bool = False) -> None:
        self.k, self.depthwise, self.pad = k, depthwise, k // 2
        fan_in = k * k * (1 if depthwise else c_in)
        shape = (c_out, 1 if depthwise else c_in, k, k)
        self.parameters = [random.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32)]

    def windows(self, x: Array) -> Array:
        """[N, C, H, W] -> [N, C, H, W, k, k], a view of the padded input."""
        p = self.pad
        return sliding_window_view(np.pad(x, [(0, 0), (0, 0), (p, p), (p, p)]), (self.k, self.k), axis=(2, 3))

    def forward(self, x: Array, training: bool) -> Array:
        self.x = x
        (w,) = self.parameters
        if self.depthwise:
            return np.einsum("nchwij,cij->nchw", self.windows(x), w[:, 0], optimize=True)
        return np.einsum("nchwij,ocij->nohw", self.windows(x), w, optimize=True)

    def backward(self, dy: Array) -> Array:
        (w,) = self.parameters
        flipped = w[:, :, ::-1, ::-1]
        if self.depthwise:
            self.gradients = [np.einsum("nchwij,nchw->cij", self.windows(self.x), dy, optimize=True)[:, None]]
            return np.einsum("nchwij,cij->nchw", self.windows(dy), flipped[:, 0], optimize=True)
        self.gradients = [np.einsum("nchwij,nohw->ocij", self.windows(self.x), dy, optimize=True)]
        return np.einsum("nohwij,ocij->nchw", self.windows(dy), flipped, optimize=True)

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        group = len(self.parameters[0]) if self.depthwise else 1
        return "Conv", self.parameters, {"kernel_shape": [self.k] * 2, "pads": [self.pad] * 4, "group": group}


class BatchNorm(Layer):
    momentum, epsilon = 0.9, 1e-5

    def __init__(self, channels: int) -> None:
        self.parameters = [np.ones(channels, np.float32), np.zeros(channels, np.float32)]
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, var = self.mean, self.var
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = self.momentum * self.mean + (1 - self.momentum) * mean
            self.var = self.momentum * self.var + (1 - self.momentum) * var
        self.scale = per_channel(1 / np.sqrt(var + self.epsilon))
        self.x_hat = (x - per_channel(mean)) * self.scale
        gamma, beta = self.parameters
        return self.x_hat * per_channel(gamma) + per_channel(beta)

    def backward(self, dy: Array) -> Array:
        self.gradients = [(dy * self.x_hat).sum((0, 2, 3)), dy.sum((0, 2, 3))]
        dx = dy * per_channel(self.parameters[0])
        mean = (0, 2, 3)
        centered = dx - dx.mean(mean, keepdims=True) - self.x_hat * (dx * self.x_hat).mean(mean, keepdims=True)
        return centered * self.scale

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "BatchNormalization", [*self.parameters, self.mean, self.var], {"epsilon": self.epsilon}


class Relu(Layer):
    def forward(self, x: Array, training: bool) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        return dy * self.positive

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "Relu", [], {}


class MaxPool(Layer):
    """2 by 2, stride 2; height and width are even."""

    def forward(self, x: Array, training: bool) -> Array:
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max((3, 5))
        self.chosen = blocks == y[:, :, :, None, :, None]
        return y

    def backward(self, dy: Array) -> Array:
        # A tie, such as between zeros after Relu, shares the gradient.
        share = self.chosen / self.chosen.sum((3, 5), keepdims=True, dtype=np.float32)
        n, c, h, w = dy.shape
        return (share * dy[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}


class GlobalAveragePool(Layer):
    def forward(self, x: Array, training: bool) -> Array:
        self.shape = x.shape
        return x.mean((2, 3), keepdims=True)

    def backward(self, dy: Array) -> Array:
        return np.broadcast_to(dy / (self.shape[2] * self.shape[3]), self.shape)

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "GlobalAveragePool", [], {}


class Flatten(Layer):
    def forward(self, x: Array, training: bool) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy: Array) -> Array:
        return dy.reshape(self.shape)

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "Flatten", [], {}


class Linear(Layer):
    def __init__(self, c_in: int, c_out: int) -> None:
        w = random.normal(0, (1 / c_in) ** 0.5, (c_out, c_in)).astype(np.float32)
        self.parameters = [w, np.zeros(c_out, np.float32)]

    def forward(self, x: Array, training: bool) -> Array:
        self.x = x
        return x @ self.parameters[0].T + self.parameters[1]

    def backward(self, dy: Array) -> Array:
        self.gradients = [dy.T @ self.x, dy.sum(0)]
        return dy @ self.parameters[0]

    def onnx(self) -> tuple[str, list[Array], dict[str, Any]]:
        return "Gemm", self.parameters, {"transB": 1}


def per_channel(x: Array) -> Array:
    return x.astype(np.float32)[None, :, None, None]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def network() -> list[Layer]:
    """[N, 1, 8, 8] -> [N, 10], the logits."""
    return [
        *(Conv(1, 16, 3), BatchNorm(16), Relu()),
        *(Conv(16, 16, 3, depthwise=True), BatchNorm(16), Relu()),
        *(Conv(16, 32, 1), BatchNorm(32), Relu()),
        MaxPool(),
        *(Conv(32, 64, 3), BatchNorm(64), Relu()),
        *(GlobalAveragePool(), Flatten(), Linear(64, 10)),
    ]


def forward(layers: list[Layer], x: Array, training: bool = False) -> Array:
    for layer in layers:
        x = layer.forward(x, training)
    return x


def shifted(images: Array) -> Array:
    """Data augmentation: moves each image by up to one pixel in each direction."""
    padded = np.pad(images, [(0, 0), (0, 0), (1, 1), (1, 1)])
    dy, dx = random.integers(0, 3, (2, len(images)))
    rows, columns = (offset[:, None] + np.arange(8) for offset in (dy, dx))
    return padded[np.arange(len(images))[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def train(layers: list[Layer], images: Array, labels: Array, epochs: int = 40, batch: int = 64) -> None:
    """Trains with cross-entropy loss and Adam, with a cosine learning rate schedule."""
    rate, beta1, beta2 = 3e-3, 0.9, 0.99
    parameters = [p for layer in layers for p in layer.parameters]
    first, second = [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters]
    steps = epochs * (len(images) // batch)
    step = 0
    for _ in range(epochs):
        order = random.permutation(len(images))
        for chosen in np.split(order[: len(order) // batch * batch], len(order) // batch):
            step += 1
            probabilities = softmax(forward(layers, shifted(images[chosen]), training=True))
            gradient = (probabilities - np.eye(10, dtype=np.float32)[labels[chosen]]) / batch
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            now = rate * (1 + np.cos(np.pi * step / steps)) / 2
            for p, g, m, v in zip(parameters, [g for y in layers for g in y.gradients], first, second, strict=True):
                m += (1 - beta1) * (g - m)
                v += (1 - beta2) * (g * g - v)
                p -= now * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + 1e-8)


def to_onnx(layers: list[Layer]) -> onnx.ModelProto:
    """The graph, written by hand: input "image" [N, 1, 8, 8] in 0..1, output "probability" [N, 10]."""
    nodes, weights, value = [], [], "image"
    for number, layer in enumerate(layers):
        op, arrays, attributes = layer.onnx()
        name = f"{op.lower()}_{number}"
        inputs = [f"{name}.{i}" for i in range(len(arrays))]
        weights += [numpy_helper.from_array(a, i) for a, i in zip(arrays, inputs, strict=True)]
        nodes.append(helper.make_node(op, [value, *inputs], [name], name=name, **attributes))
        value = name
    nodes.append(helper.make_node("Softmax", [value], ["probability"], name="softmax", axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["N", 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    x, x_test, y, y_test = train_test_split(
        images, digits.target, test_size=0.2, random_state=0, stratify=digits.target
    )
    layers = network()
    train(layers, x, y)
    accuracy = np.mean(forward(layers, x_test).argmax(1) == y_test)
    print(f"test accuracy: {accuracy:.2%} of {len(x_test)} images")
    onnx.save(to_onnx(layers), HERE / "digits.onnx")
    np.savez_compressed(HERE / "digits_test.npz", images=x_test, labels=y_test.astype(np.int64))


if __name__ == "__main__":
    main()
