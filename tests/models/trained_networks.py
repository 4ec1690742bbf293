"""Small networks, in our words and in PyTorch's, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow import expr, nn
from minnow.expr.operation import apply


def relu(x: Any) -> Any:
    return apply("Relu", x)


class Small(nn.Module):
    """[N, 2, 6, 6] -> probabilities [N, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.conv(2, 4, 3, padding_mode=expr.SAME, bias=False)
        self.norm = nn.batch_norm(4, momentum=0.9)
        self.deep = nn.conv(4, 4, 3, depthwise=True, padding_mode=expr.SAME, bias=False)
        self.fc = nn.linear(4, 3)

    def forward(self, x: Any) -> Any:
        y = relu(self.norm(self.conv(x)))
        y = apply("MaxPool", y, kernel=(2, 2), strides=(2, 2), pads=(0,) * 4, dilations=(1, 1))
        y = apply("ReduceMean", relu(self.deep(y)), axes=(2, 3), keepdims=False)
        return apply("Softmax", self.fc(y), axis=1)


def in_torch(net: Small) -> Any:
    """The same network, with copies of its weights."""
    import torch
    from torch import nn as tnn

    made = tnn.Sequential(
        tnn.Conv2d(2, 4, 3, padding=1, bias=False), tnn.BatchNorm2d(4, momentum=0.1), tnn.ReLU(), tnn.MaxPool2d(2),
        tnn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), tnn.ReLU(), tnn.AdaptiveAvgPool2d(1), tnn.Flatten(),
        tnn.Linear(4, 3), tnn.Softmax(1),
    )  # fmt: skip
    ours = {"0": net.conv, "4": net.deep, "8": net.fc}
    with torch.no_grad():
        for place, module in ours.items():
            layer = made[int(place)]
            vars = module._vars
            layer.weight.copy_(torch.from_numpy(vars["weight"].read()))
            if "bias" in vars:
                layer.bias.copy_(torch.from_numpy(vars["bias"].read().reshape(-1)))
    return made


def weights(net: Small) -> list[np.ndarray[Any, Any]]:
    """Weights in the order of the layers, flat."""
    parts = [net.conv._vars, net.norm._vars, net.deep._vars, net.fc._vars]
    names = ("weight", "scale", "bias")
    return [p[n].read().reshape(-1) for p in parts for n in names if n in p]


def torch_weights(net: Any) -> list[np.ndarray[Any, Any]]:
    return [p.detach().numpy().reshape(-1) for i in (0, 1, 4, 8) for p in net[i].parameters()]
