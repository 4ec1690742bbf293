"""A detector of the size of YOLOX-nano: depthwise convolutions, three levels, SiLU; 416 x 416 pictures."""

from __future__ import annotations

import torch
from torch import nn

WIDTHS = (16, 32, 64, 128, 256)


def conv(c: int, o: int, k: int = 1, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(c, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o, eps=1e-3), nn.SiLU()
    )


def separable(c: int, o: int, k: int = 3, stride: int = 1) -> nn.Module:
    return nn.Sequential(conv(c, c, k, stride, groups=c), conv(c, o))


class Bottleneck(nn.Module):
    def __init__(self, c: int, adds: bool) -> None:
        super().__init__()
        self.body, self.adds = nn.Sequential(conv(c, c), separable(c, c)), adds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


class Partial(nn.Module):
    """Half of the channels goes through `n` bottlenecks."""

    def __init__(self, c: int, o: int, n: int, adds: bool = True) -> None:
        super().__init__()
        self.left, self.right, self.join = conv(c, o // 2), conv(c, o // 2), conv(o, o)
        self.body = nn.Sequential(*(Bottleneck(o // 2, adds) for _ in range(n)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat([self.body(self.left(x)), self.right(x)], 1))


class Pyramid(nn.Module):
    """Three poolings of one size after another are those of three sizes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.first, self.join = conv(c, c // 2), conv(2 * c, c)
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (5, 9, 13))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.join(torch.cat([x, *(pool(x) for pool in self.pools)], 1))


class Head(nn.Module):
    def __init__(self, c: int, width: int = 64, classes: int = 80) -> None:
        super().__init__()
        self.stem = conv(c, width)
        self.kind = nn.Sequential(separable(width, width), separable(width, width))
        self.box = nn.Sequential(separable(width, width), separable(width, width))
        self.classes, self.corners, self.object = (nn.Conv2d(width, n, 1) for n in (classes, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        box, kind = self.box(x), self.kind(x)
        parts = [self.corners(box), self.object(box).sigmoid(), self.classes(kind).sigmoid()]
        return torch.cat(parts, 1).flatten(2)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        a, b, c, d, e = WIDTHS
        self.stem = conv(12, a, 3)
        self.stages = nn.ModuleList([
            nn.Sequential(separable(a, b, stride=2), Partial(b, b, 1)),
            nn.Sequential(separable(b, c, stride=2), Partial(c, c, 3)),
            nn.Sequential(separable(c, d, stride=2), Partial(d, d, 3)),
            nn.Sequential(separable(d, e, stride=2), Pyramid(e), Partial(e, e, 1, adds=False)),
        ])  # fmt: skip
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.lateral, self.reduce = conv(e, d), conv(d, c)
        self.merge4, self.merge3 = Partial(2 * d, d, 1, adds=False), Partial(2 * c, c, 1, adds=False)
        self.down3, self.down4 = separable(c, c, stride=2), separable(d, d, stride=2)
        self.out4, self.out5 = Partial(2 * c, d, 1, adds=False), Partial(2 * d, e, 1, adds=False)
        self.heads = nn.ModuleList([Head(c), Head(d), Head(e)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quarters = [x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)]
        x = self.stages[0](self.stem(torch.cat(quarters, 1)))
        c3 = self.stages[1](x)
        c4 = self.stages[2](c3)
        c5 = self.stages[3](c4)
        p5 = self.lateral(c5)
        p4 = self.reduce(self.merge4(torch.cat([self.up(p5), c4], 1)))
        p3 = self.merge3(torch.cat([self.up(p4), c3], 1))
        n4 = self.out4(torch.cat([self.down3(p3), p4], 1))
        n5 = self.out5(torch.cat([self.down4(n4), p5], 1))
        return torch.cat([head(x) for head, x in zip(self.heads, (p3, n4, n5), strict=True)], 2).permute(0, 2, 1)
