"""Window functions of signal processing, all constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.converter.operand import bounded
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import dtype_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _waves(*weights: float) -> Callable[[int], Array]:
    """Sums of cosines of 0, 1, 2, ... turns, with alternating signs."""

    def window(n: int) -> Array:
        angle = 2 * np.pi * np.arange(n) / (n - 1)
        return np.sum([w * (-1) ** k * np.cos(k * angle) for k, w in enumerate(weights)], axis=0)

    return window


def _made(b: Builder, length: Any, periodic: bool, window: Callable[[int], Array], dtype: Any) -> Value:
    """A window; a periodic one lacks the last number of one that is longer by 1."""
    n = bounded(known(length, "the length of a window"), "a window")
    numbers = np.ones(n) if n < 2 else window(n + 1)[:-1] if periodic else window(n)
    return b.const(numbers.astype(dtype_of(dtype, DType.F32).numpy))


def _window(name: str, window: Callable[[int], Array]) -> None:
    @torch.op(f"aten::{name}_window")
    def _(b, window_length, dtype=None, layout=None, device=None, pin_memory=None):
        return _made(b, window_length, True, window, dtype)

    @torch.op(f"aten::{name}_window.periodic")
    def _(b, window_length, periodic=True, dtype=None, layout=None, device=None, pin_memory=None):
        return _made(b, window_length, periodic, window, dtype)


_window("hann", _waves(0.5, 0.5))
_window("hamming", _waves(0.54, 0.46))
_window("blackman", _waves(0.42, 0.5, 0.08))
_window("bartlett", np.bartlett)
_window("kaiser", lambda n: np.kaiser(n, 12.0))


@torch.op("aten::hamming_window.periodic_alpha")
def _(b, window_length, periodic, alpha, dtype=None, layout=None, device=None, pin_memory=None):
    return _made(b, window_length, periodic, _waves(alpha, 0.46), dtype)


@torch.op("aten::hamming_window.periodic_alpha_beta")
def _(b, window_length, periodic, alpha, beta, dtype=None, layout=None, device=None, pin_memory=None):
    return _made(b, window_length, periodic, _waves(alpha, beta), dtype)


@torch.op("aten::kaiser_window.beta")
def _(b, window_length, periodic, beta, dtype=None, layout=None, device=None, pin_memory=None):
    return _made(b, window_length, periodic, lambda n: np.kaiser(n, beta), dtype)
