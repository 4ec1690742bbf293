"""Pooling: Caffe rounds the number of windows up, lets them end behind the padding, and divides by what is in it."""

from __future__ import annotations

from typing import Any

from .case import F, case, distinct, f32, layer, torch


def windows(size: int, kernel: int, stride: int, pad: int, floor: bool = False) -> int:
    """How many windows fit; with padding, the last one starts within the input or the padding before it."""
    n = (size + 2 * pad - kernel) // stride + 1 if floor else -(-(size + 2 * pad - kernel) // stride) + 1
    return n - 1 if pad and (n - 1) * stride >= size + pad else n


def pooled(x: Any, method: str, kernel: Any, stride: Any, pad: Any, floor: bool = False) -> Any:
    """Caffe's rule by torch's windows of a tensor that is padded by hand."""
    n = [windows(s, k, d, p, floor) for s, k, d, p in zip(x.shape[2:], kernel, stride, pad, strict=True)]
    # Up to where the last window reaches; its elements behind input and padding do not count for the mean.
    ends = [max(0, (m - 1) * d + k - s - p) for m, d, k, s, p in zip(n, stride, kernel, x.shape[2:], pad, strict=True)]

    def grown(v: Any, fill: float, count_pad: bool) -> Any:
        after = [min(e, p) for e, p in zip(ends, pad, strict=True)]
        v = F.pad(v, (pad[1], after[1], pad[0], after[0]), value=fill if not count_pad else 1.0)
        v = F.pad(v, (0, ends[1] - after[1], 0, ends[0] - after[0]), value=fill if not count_pad else 0.0)
        return v[:, :, : (n[0] - 1) * stride[0] + kernel[0], : (n[1] - 1) * stride[1] + kernel[1]]

    if method == "MAX":
        # Of a window without elements, behind the input, comes what Caffe begins with.
        return F.max_pool2d(grown(x, float("-inf"), False), kernel, stride).clip(min=torch.finfo(x.dtype).min)
    total = F.avg_pool2d(grown(x, 0.0, False), kernel, stride, divisor_override=1)
    count = F.avg_pool2d(grown(torch.ones_like(x), 0.0, True), kernel, stride, divisor_override=1)
    return total / count


def pair(v: Any) -> tuple[int, int]:
    return v if isinstance(v, tuple) else (v, v)


def pool(name: str, shape: tuple[int, ...], kernel: Any, stride: Any = 1, pad: Any = 0, more: str = "") -> None:
    """Both methods of one geometry."""
    text = more
    for word, v, none in (("kernel", kernel, 0), ("stride", stride, 1), ("pad", pad, 0)):
        if isinstance(v, tuple):
            text += f" {word}_h: {v[0]} {word}_w: {v[1]}"
        elif v != none:
            text += f" {'kernel_size' if word == 'kernel' else word}: {v}"
    for method in ("MAX", "AVE"):
        case(f"pool_{method.lower()}_{name}", f32(*shape), layer("Pooling", f"pool: {method} {text}"))(
            lambda x, m=method: pooled(x, m, pair(kernel), pair(stride), pair(pad), "FLOOR" in more)
        )


pool("2x2_stride2_even", (1, 3, 8, 6), 2, 2)
pool("2x2_stride2_odd", (2, 3, 7, 5), 2, 2)
pool("3x3_stride2", (1, 3, 9, 7), 3, 2)
pool("3x3_stride2_partial", (1, 3, 10, 8), 3, 2)
pool("3x3_stride2_pad1", (1, 3, 9, 7), 3, 2, 1)
pool("3x3_stride2_pad1_even", (1, 3, 8, 10), 3, 2, 1)
pool("3x3_stride1_pad1", (2, 3, 5, 7), 3, 1, 1)
pool("2x2_stride2_pad1", (1, 3, 7, 8), 2, 2, 1)
pool("2x2_stride2_pad1_small", (1, 2, 3, 3), 2, 2, 1)
pool("3x3_stride3_pad1", (1, 2, 7, 8), 3, 3, 1)
pool("5x5_stride3_pad2", (1, 2, 12, 13), 5, 3, 2)
pool("2x2_stride3", (1, 2, 7, 8), 2, 3)
pool("2x2_stride3_rest2", (1, 2, 9, 10), 2, 3)
pool("1x1_stride2", (1, 2, 7, 8), 1, 2)
pool("kernel_is_input", (1, 3, 5, 7), (5, 7))
pool("h_and_w", (1, 3, 9, 8), (3, 2), (1, 2), (1, 0))
pool("only_pad_w", (1, 3, 9, 8), 3, 2, (0, 1))
pool("one_pixel", (1, 3, 1, 1), 1)
pool("one_row", (1, 3, 1, 11), (1, 3), (1, 2))
pool("floor", (1, 3, 10, 8), 3, 2, 0, "round_mode: FLOOR")
pool("floor_pad", (1, 3, 10, 8), 3, 2, 1, "round_mode: FLOOR")
pool("prime_many_channels", (1, 17, 13, 11), 3, 2)
pool("4x4_stride4_pad2", (1, 2, 11, 9), 4, 4, 2)
for method, f in (("MAX", lambda x: x.amax((2, 3), True)), ("AVE", lambda x: x.mean((2, 3), True))):
    case(f"pool_{method.lower()}_global", f32(2, 5, 7, 6), layer("Pooling", f"pool: {method} global_pooling: true"))(f)
    case(
        f"pool_{method.lower()}_global_stated",
        f32(2, 5, 1, 6),
        layer("Pooling", f"pool: {method} global_pooling: true stride: 1 pad: 0"),
    )(f)
case("pool_default_method", f32(1, 2, 6, 6), layer("Pooling", "kernel_size: 2 stride: 2"))(lambda x: F.max_pool2d(x, 2))
case("pool_engine", f32(1, 2, 6, 6), layer("Pooling", "kernel_size: 2 stride: 2 engine: CAFFE"))(
    lambda x: F.max_pool2d(x, 2)
)


def with_places(x, **how):
    y, at = F.max_pool2d(x, return_indices=True, **how)
    return y, at.float()


case("pool_max_with_mask", distinct(2, 3, 6, 8), layer("Pooling", "pool: MAX kernel_size: 2 stride: 2", to="y mask"))(
    lambda x: with_places(x, kernel_size=2)
)
case(
    "pool_max_with_mask_odd", distinct(1, 3, 7, 5), layer("Pooling", "pool: MAX kernel_size: 2 stride: 2", to="y mask")
)(lambda x: with_places(x, kernel_size=2, ceil_mode=True))
case(
    "pool_max_with_mask_3x3",
    distinct(1, 2, 9, 9),
    layer("Pooling", "pool: MAX kernel_size: 3 stride: 2 pad: 1", to="y mask"),
)(lambda x: with_places(x, kernel_size=3, stride=2, padding=1))
case("pool_stochastic", f32(1, 3, 8, 6, low=0.1), layer("Pooling", "pool: STOCHASTIC kernel_size: 2 stride: 2"))(
    lambda x: F.avg_pool2d(x * x, 2, divisor_override=1) / F.avg_pool2d(x, 2, divisor_override=1)
)
for levels in (1, 2, 3):

    def pyramid(x, levels=levels, method="MAX"):
        parts = []
        for level in range(levels):
            bins = 2**level
            kernel = [-(-s // bins) for s in x.shape[2:]]
            pad = [(k * bins - s + 1) // 2 for k, s in zip(kernel, x.shape[2:], strict=True)]
            parts.append(pooled(x, method, kernel, kernel, pad).flatten(1))
        # One level alone stays an image.
        return torch.cat(parts, 1) if levels > 1 else parts[0][:, :, None, None]

    case(f"spp_max_{levels}", f32(2, 3, 8, 8), layer("SPP", f"pyramid_height: {levels} pool: MAX"))(pyramid)
    case(f"spp_ave_{levels}", f32(1, 3, 8, 12), layer("SPP", f"pyramid_height: {levels} pool: AVE"))(
        lambda x, f=pyramid: f(x, method="AVE")
    )
case("spp_odd", f32(1, 3, 7, 9), layer("SPP", "pyramid_height: 2"))(lambda x: pyramid(x, 2))
