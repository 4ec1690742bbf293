"""Short-time Fourier transforms and their inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.ops.spectral.fft import both, complex_of, pair_of, parts_of
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _window(b: Builder, window: Value | None, win: int, size: int, dtype: DType) -> Value:
    """The window in the middle of `size` samples; ones where none is given."""
    if not 0 < win <= size:
        raise ModelError(f"a window of {win} samples does not fit a transform of {size}")
    before = (size - win) // 2
    if window is None:
        made = np.zeros(size, dtype.numpy)
        made[before : before + win] = 1
        return b.const(made)
    window = as_value(b, window, dtype)
    return window if win == size else b.Pad(window, np.array([before, size - win - before]))


def _stft(t: Any, x: Any, n_fft: Any, hop: Any, win: Any, window: Any, normalized: Any, onesided: Any,
          as_complex: Any, center: bool = False, pad_mode: str = "reflect") -> Tensor:  # fmt: skip
    b, signal = t.builder, parts_of(t, x)
    n = known(n_fft, "the length of a transform")
    hop = n // 4 if hop is None else known(hop, "the distance of windows")
    win = n if win is None else known(win, "the length of a window")
    is_complex = isinstance(x, Tensor) and x.is_complex
    onesided = not is_complex if onesided is None else onesided
    alone = rank(signal, "a signal") == 2
    signal = b.Unsqueeze(signal, axes=(0,)) if alone else signal
    if center:
        modes = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}
        if pad_mode not in modes:
            raise ModelError(f"the pad_mode '{pad_mode}' is unknown")
        signal = b.Pad(signal, np.array([0, n // 2, 0, 0, n // 2, 0]), mode=modes[pad_mode])
    weights = _window(b, None if window is None else t.value(window), win, n, signal.type.dtype)
    made = b.Transpose(b.STFT(signal, np.array(hop), weights, onesided=bool(onesided)), perm=(0, 2, 1, 3))
    made = b.Mul(made, n**-0.5) if normalized else made
    made = b.Squeeze(made, axes=(0,)) if alone else made
    # Without a word about it the result is what the signal, or its window, is: real signals give pairs.
    return complex_of(made) if as_complex or (as_complex is None and is_complex) else Tensor(made)


@both("aten::stft")
def _(t, self, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None,
      return_complex=None, align_to_window=None):  # fmt: skip
    return _stft(t, self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex)


@both("aten::stft.center")
def _(t, self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
      onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    return _stft(t, self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, center, pad_mode)


@both("aten::istft")
def _(t, self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
      length=None, return_complex=False):  # fmt: skip
    if return_complex:
        raise UnsupportedError("istft with a complex result is not supported")
    b, x = t.builder, pair_of(t, self)
    n = known(n_fft, "the length of a transform")
    hop = n // 4 if hop_length is None else known(hop_length, "the distance of windows")
    win = n if win_length is None else known(win_length, "the length of a window")
    alone = rank(x, "spectra") == 3
    x = b.Transpose(b.Unsqueeze(x, axes=(0,)) if alone else x, perm=(0, 2, 1, 3))
    frames, bins = (static_dim(x.type, i, "the dimensions of spectra") for i in (1, 2))
    onesided = bins != n if onesided is None else onesided
    made = b.DFT(x, np.array(n), np.array(2), inverse=True, onesided=bool(onesided))
    made = b.Gather(made, np.array(0), axis=3)
    weights = _window(b, None if window is None else t.value(window), win, n, x.type.dtype)
    total = n + hop * (frames - 1)

    def laid(frames: Value) -> Value:
        blocks = b.Transpose(frames, perm=(0, 2, 1))
        made = b.Col2Im(blocks, np.array([1, total]), np.array([1, n]), strides=(1, hop), pads=(0,) * 4,
                        dilations=(1, 1))  # fmt: skip
        return b.Squeeze(made, axes=(1, 2))

    signal = laid(b.Mul(made, weights))
    share = laid(b.Expand(b.Square(weights), np.array([1, frames, n])))
    start = n // 2 if center else 0
    wanted = None if length is None else known(length, "the length of the signal")
    end = min(total, start + wanted) if wanted is not None else total - start
    cut = np.array([start]), np.array([end]), np.array([1])
    signal = b.Div(b.Slice(signal, *cut), b.Slice(share, *cut))
    if wanted is not None and end - start < wanted:
        signal = b.Pad(signal, np.array([0, 0, 0, wanted - (end - start)]))
    signal = b.Mul(signal, float(n) ** 0.5) if normalized else signal
    return Tensor(b.Squeeze(signal, axes=(0,)) if alone else signal)
