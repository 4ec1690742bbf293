"""`examples/train/digits.py` in PyTorch: the same network, batches, optimizer and schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def network() -> Any:
    def block(c_in: int, c_out: int, k: int, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(c_in, c_out, k, padding=k // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(c_out), nn.ReLU()]

    return nn.Sequential(
        *block(1, 16, 3), *block(16, 16, 3, 16), *block(16, 32, 1), nn.MaxPool2d(2), *block(32, 64, 3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def take_weights(net: Any, ours: Any) -> None:
    """Begins with the weights of our network."""
    layers = [m for m in net if isinstance(m, (nn.Conv2d, nn.Linear))]
    with torch.no_grad():
        for layer, module in zip(layers, (ours.conv1, ours.conv2, ours.conv3, ours.conv4, ours.fc), strict=True):
            layer.weight.copy_(torch.from_numpy(module._vars["weight"].read()))
        layers[-1].bias.zero_()


def train(net: Any, loader: Any, epochs: int, rate: float) -> Iterator[float]:
    """As the example's, with batches of the same loader."""
    optimizer = torch.optim.Adam(net.parameters(), rate, betas=(0.9, 0.99))
    count, total = 0, epochs * loader.iter_number
    net.train()
    for _ in range(epochs):
        losses = 0.0
        for (images,), (targets,) in loader:
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 + math.cos(math.pi * count / total)) / 2
            x, t = (torch.from_numpy(v.read()) for v in (images, targets))
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), t)
            loss.backward()
            optimizer.step()
            count += 1
            losses += loss.item()
        yield losses / loader.iter_number
    net.eval()


def accuracy(net: Any, images: Any, labels: Any) -> float:
    with torch.no_grad():
        return float(np.mean(net(torch.from_numpy(images)).argmax(1).numpy() == labels))
