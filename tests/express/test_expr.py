"""`minnow.expr`: each function gives what numpy or PyTorch gives, at once and in a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from expr_cases import ARRAYS, CASES

from minnow import expr
from minnow.errors import UsageError
from minnow.expr import Var
from minnow.expr.names import all_names

PAIRS = [tuple(line.rsplit(" = ", 1)) for line in CASES.strip().splitlines()]
NAMES = {entry.name: entry.value for entry in all_names("expr") if entry.package == "expr"}
CHANNELS = np.arange(1, 5, dtype=np.float32).reshape(1, 4, 1, 1)


class Torch:
    """Functions of a module of PyTorch, for numpy arrays."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        import torch

        def call(*args: Any, **kwargs: Any) -> Any:
            plain = [torch.from_numpy(np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a for a in args]
            return getattr(self._module, name)(*plain, **kwargs).numpy()

        return call


def roi_samples(x: Any, roi: Any, size: tuple[int, int], scale: float, ratio: int, aligned: bool) -> Any:
    """Means of bilinear samples, one by one."""
    out = np.zeros((len(roi), x.shape[1], *size), np.float64)
    for r, (image, x1, y1, x2, y2) in enumerate(roi):
        shift = 0.5 if aligned else 0.0
        start = np.array([y1, x1]) * scale - shift
        length = np.array([y2, x2]) * scale - shift - start
        length = length if aligned else np.maximum(length, 1)
        for p, q in np.ndindex(*size):
            for s, t in np.ndindex(ratio, ratio):
                y, z = start + length * (np.array([p, q]) + (np.array([s, t]) + 0.5) / ratio) / size
                out[r, :, p, q] += bilinear(x[int(image)], y, z) / ratio**2
    return out


def bilinear(image: Any, y: float, x: float) -> Any:
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return np.zeros(len(image))
    y, x = max(y, 0), max(x, 0)
    i, j = min(int(y), h - 1), min(int(x), w - 1)
    k, m = min(i + 1, h - 1), min(j + 1, w - 1)
    fy, fx = (y - i if i < h - 1 else 0), (x - j if j < w - 1 else 0)
    top = image[:, i, j] * (1 - fx) + image[:, i, m] * fx
    return top * (1 - fy) + (image[:, k, j] * (1 - fx) + image[:, k, m] * fx) * fy


def roi_maxima(x: Any, roi: Any, size: tuple[int, int], scale: float) -> Any:
    out = np.zeros((len(roi), x.shape[1], *size), np.float32)
    for r, row in enumerate(roi):
        x1, y1, x2, y2 = (int(np.floor(v * scale + 0.5)) for v in row[1:])
        h, w = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
        for p, q in np.ndindex(*size):
            rows = slice(max(int(np.floor(p * h)) + y1, 0), max(int(np.ceil((p + 1) * h)) + y1, 0))
            columns = slice(max(int(np.floor(q * w)) + x1, 0), max(int(np.ceil((q + 1) * w)) + x1, 0))
            part = x[int(row[0]), :, rows, columns]
            out[r, :, p, q] = part.max((1, 2)) if part.size else 0
    return out


def oracle(text: str) -> Any:
    import torch

    tv = SimpleNamespace(roi_align=roi_samples, roi_pool=roi_maxima)
    values = {k: v.copy() for k, v in ARRAYS.items()}
    modules = {"np": np, "nn": Torch(torch.nn.functional), "sp": Torch(torch.special), "tv": tv}
    return eval(
        text,
        {
            **values,
            **modules,
            "C": CHANNELS,
            "S": values["s"].reshape(1, 4, 1, 1),
            "P": ((0, 0), (0, 0), (1, 1), (0, 1)),
        },
    )


def check(ours: Any, want: Any, rtol: float) -> None:
    if isinstance(want, list):
        assert len(ours) == len(want)
        for a, b in zip(ours, want, strict=True):
            check(a, b, rtol)
        return
    want = np.asarray(want)
    got = ours.read() if isinstance(ours, Var) else np.asarray(ours)
    assert list(got.shape) == list(want.shape)
    if isinstance(ours, Var):
        assert ours.shape == list(want.shape)
        assert ours.dtype == got.dtype
        assert got.dtype in (np.float32, np.int32, np.uint8, np.int8, np.int64)
        assert (got.dtype.kind == "f") == (want.dtype.kind == "f") or got.dtype == np.int8
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol, 2e-6)


@pytest.mark.parametrize(("call", "want"), PAIRS, ids=[p[0] for p in PAIRS])
def test_results_at_once(call: str, want: str) -> None:
    values = {k: Var.from_array(v.copy()) for k, v in ARRAYS.items()}
    check(eval(call, {**NAMES, **values, "F": expr}), oracle(want), 2e-5)


@pytest.fixture
def lazy() -> Iterator[None]:
    expr.lazy_eval(True)
    yield
    expr.lazy_eval(False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("call", "want"), PAIRS, ids=[p[0] for p in PAIRS])
def test_results_of_graphs(call: str, want: str, lazy: None) -> None:
    values = {}
    for name, array in ARRAYS.items():
        values[name] = expr.placeholder(array.shape, dtype=array.dtype)
        values[name].write(array)
    check(eval(call, {**NAMES, **values, "F": expr}), oracle(want), 2e-5)


def test_every_name_is_called() -> None:
    text = CASES + "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = [e for e in all_names("expr") if e.callable and not isinstance(e.value, type)]
    missing = [e.name for e in names if not re.search(rf"\b{e.name}\(", text)]
    assert not missing
    assert len([e for e in all_names("expr") if e.callable]) >= 162
    assert len([e for e in all_names("expr") if not e.callable]) == 31


def test_wrong_arguments_are_errors() -> None:
    x, a = Var.from_array(ARRAYS["x"]), Var.from_array(ARRAYS["a"])
    for call in (
        lambda: expr.conv2d(a, ARRAYS["v"], None),
        lambda: expr.conv2d(x, ARRAYS["v"], [1.0]),
        lambda: expr.conv2d(x, ARRAYS["v"], None, (0, 1)),
        lambda: expr.max_pool(x, [2], [1, 1], 3),
        lambda: expr.pad(a, [1, 2]),
        lambda: expr.transpose(x, [0, 1]),
        lambda: expr.reshape(a, "ab"),
        lambda: expr.concat(3, 0),
        lambda: expr.split(a, [1, 2], 0),
        lambda: expr.convert(a, "NHWC"),
        lambda: expr.cast(a, "complex64"),
        lambda: expr.softmax(a, 1),
        lambda: expr.one_hot(a, 3),
        lambda: expr.gather(a, [0.5]),
        lambda: expr.raster([a], [0] * 11, [-1]),
        lambda: expr.raster([a], [9, 1, 1, 1, 0, 1, 1, 1, 1, 1, 2], [2]),
        lambda: expr.quant(a, -1.0),
        lambda: expr.set_thread_number(0),
        lambda: expr.set_global_executor_config("CPU", 7, 1),
        lambda: expr.const([1, 2, 3], [2]),
        lambda: expr.const([1.5], [1], expr.NCHW, "text"),
        lambda: expr.placeholder([2, -3]),
        lambda: a.write([1, 2]),
        lambda: expr.graph_of(a),
    ):
        with pytest.raises(UsageError):
            call()
