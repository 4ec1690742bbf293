"""Operators of torchvision. They are defined here where its library does not go with the PyTorch that is installed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import check  # noqa: E402

ROIS = torch.tensor([[0.0, 1.0, 0.5, 7.0, 6.0], [1.0, 2.3, 1.1, 5.9, 8.4], [0.0, -3.0, 4.0, 2.0, 12.0]])
IMAGES = torch.randn(2, 8, 9, 11, generator=torch.Generator().manual_seed(1))


def _sample(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """Between elements, of image[C, H, W]; 0 farther than an element outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    upper = image[:, top, left] * (1 - u) + image[:, top, right] * u
    lower = image[:, below, left] * (1 - u) + image[:, below, right] * u
    return upper * (1 - v) + lower * v


def _roi_align(x: torch.Tensor, rois: torch.Tensor, scale: float, h: int, w: int, ratio: int, aligned: bool) -> Any:
    out = torch.zeros(len(rois), x.shape[1], h, w)
    for r, (image, left, top, right, bottom) in enumerate(rois.tolist()):
        shift = 0.5 if aligned else 0.0
        start, size = (top * scale - shift, left * scale - shift), ((bottom - top) * scale, (right - left) * scale)
        if not aligned:
            size = (max(size[0], 1.0), max(size[1], 1.0))
        for i in range(h):
            for j in range(w):
                for a in range(ratio):
                    for b in range(ratio):
                        at = [start[k] + size[k] / n * (p + (q + 0.5) / ratio)
                              for k, (n, p, q) in enumerate(((h, i, a), (w, j, b)))]  # fmt: skip
                        out[r, :, i, j] += _sample(x[int(image)], *at) / ratio**2
    return out


def _ps_roi_align(x: torch.Tensor, rois: torch.Tensor, scale: float, h: int, w: int, ratio: int) -> Any:
    y = _roi_align(x, rois, scale, h, w, ratio, True)
    parts = [[y[:, i * w + j :: h * w, i, j] for j in range(w)] for i in range(h)]
    made = torch.stack([torch.stack(row, -1) for row in parts], -2)
    return made, torch.zeros(made.shape, dtype=torch.int32)


def _roi_pool(x: torch.Tensor, rois: torch.Tensor, scale: float, h: int, w: int) -> Any:
    out = torch.zeros(len(rois), x.shape[1], h, w)
    for r, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (int(abs(c * scale) + 0.5) * (1 if c > 0 else -1) for c in corners)
        for i in range(h):
            for j in range(w):
                rows, columns = (
                    slice(max(0, k * n // m + o), max(0, -(-(k + 1) * n // m) + o))
                    for k, m, n, o in ((i, h, max(bottom - top + 1, 1), top), (j, w, max(right - left + 1, 1), left))
                )
                part = x[int(image), :, rows, columns]
                if part.numel():
                    out[r, :, i, j] = part.amax((1, 2))
    return out, torch.zeros(out.shape, dtype=torch.int32)


def _nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    kept: list[int] = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        for j in kept:
            low, high = torch.maximum(boxes[i, :2], boxes[j, :2]), torch.minimum(boxes[i, 2:], boxes[j, 2:])
            inner = (high - low).clamp(min=0).prod()
            areas = (boxes[i, 2:] - boxes[i, :2]).prod() + (boxes[j, 2:] - boxes[j, :2]).prod()
            if float(inner / (areas - inner)) > threshold:
                break
        else:
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def _deform_conv(x: Any, w: Any, offset: Any, mask: Any, bias: Any, sh: int, sw: int, ph: int, pw: int, dh: int,
                 dw: int, groups: int, parts: int, use_mask: bool) -> Any:  # fmt: skip
    n, channels, height, width = x.shape
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))  # what is outside counts as 0, and fades over one element
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    columns = torch.zeros(n, channels, kh * kw, oh, ow)
    each = channels // parts
    for b in range(n):
        for c in range(channels):
            for k in range(kh * kw):
                tap = (c // each) * kh * kw + k
                for i in range(oh):
                    for j in range(ow):
                        y = i * sh - ph + (k // kw) * dh + float(offset[b, 2 * tap, i, j])
                        z = j * sw - pw + (k % kw) * dw + float(offset[b, 2 * tap + 1, i, j])
                        if -1 < y < height and -1 < z < width:
                            factor = mask[b, tap, i, j] if use_mask else 1.0
                            columns[b, c, k, i, j] = _sample(padded[b, c : c + 1], y + 2, z + 2)[0] * factor
    flat = columns.reshape(n, groups, channels // groups * kh * kw, oh * ow)
    y = w.reshape(groups, -1, flat.shape[2]) @ flat
    return y.reshape(n, -1, oh, ow) + bias.reshape(1, -1, 1, 1)


_DEFINED = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _nms,
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor": _roi_align,
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width) "
    "-> (Tensor, Tensor)": _roi_pool,
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)": _ps_roi_align,
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, "
    "int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask) "
    "-> Tensor": _deform_conv,
}


@pytest.fixture(scope="module")
def ops() -> Any:
    namespace = torch.ops.torchvision
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema, function in _DEFINED.items():
        name = schema.partition("(")[0]
        if not hasattr(namespace, name):
            library.define(schema)
        # Other tests may have defined the operator without saying what it computes.
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"torchvision::{name}", "CPU"):
            library.impl(name, function, "CPU")
    yield namespace
    del library


def test_suppression_of_boxes(ops: Any) -> None:
    corners = torch.rand(17, 2, generator=torch.Generator().manual_seed(2)) * 4
    boxes = torch.cat([corners, corners + 1 + torch.rand(17, 2, generator=torch.Generator().manual_seed(3))], 1)
    scores = torch.rand(17, generator=torch.Generator().manual_seed(4))
    for threshold in (0.1, 0.3, 0.7):
        check(lambda b, s, t=threshold: ops.nms(b, s, t), boxes, scores, roads=["trace"])


def test_an_overlap_that_is_the_threshold(ops: Any) -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 7.0], [0.0, 0.0, 10.0, 4.9]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    for threshold in (0.7, 0.49, 0.1, 1.0):
        check(lambda b, s, t=threshold: ops.nms(b, s, t), boxes, scores, roads=["trace"])


@pytest.mark.parametrize("aligned", [True, False])
def test_regions_resampled(ops: Any, aligned: bool) -> None:
    check(lambda x, r: ops.roi_align(x, r, 0.75, 3, 2, 2, aligned), IMAGES, ROIS, roads=["trace"])


def test_regions_of_which_each_bin_has_channels_of_its_own(ops: Any) -> None:
    check(lambda x, r: ops.ps_roi_align(x, r, 0.75, 2, 2, 3)[0], IMAGES, ROIS, roads=["trace"])


def test_the_largest_elements_of_regions(ops: Any) -> None:
    check(lambda x, r: ops.roi_pool(x, r, 0.8, 3, 2)[0], IMAGES, ROIS, roads=["trace"])


@pytest.mark.parametrize("use_mask", [True, False])
def test_convolution_at_places_that_are_data(ops: Any, use_mask: bool) -> None:
    random = torch.Generator().manual_seed(5)
    x, w, bias = (torch.randn(*s, generator=random) for s in ((1, 4, 5, 6), (6, 2, 3, 2), (6,)))
    offset, mask = torch.randn(1, 24, 3, 4, generator=random) * 1.5, torch.rand(1, 12, 3, 4, generator=random)
    settings = (2, 1, 1, 0, 1, 2, 2, 2, use_mask)
    check(lambda *t: ops.deform_conv2d(*t, *settings), x, w, offset, mask, bias, roads=["trace"])
