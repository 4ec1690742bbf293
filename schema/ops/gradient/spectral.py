"""Derivatives of Fourier transforms: they are Fourier transforms the other way round."""

from __future__ import annotations

import numpy as np

from minnow.schema.ops import spectral
from minnow.schema.registry.dimension import axis_of


def _fitted(g, v, axis, size):
    """v cut, or padded with zeros, to a size along an axis."""
    pads = [0] * (2 * v.rank)
    pads[2 * axis + 1] = size - v.shape[axis]
    return g.Pad(v, g.ints(*pads)) if any(pads) else v


@spectral.DFT.gradient
def _(g, x, length, axis, *, inverse, onesided):
    at = axis_of(-2 if axis is None else int(axis.numbers("the axis").reshape(())), x.rank)
    size = x.shape[at]
    n = spectral._default_length(size, inverse, onesided)
    if length is not None:
        n = int(length.numbers("the length").reshape(()))
    along = g.term(np.int64(at))
    if inverse and onesided:
        # A spectrum stands for its mirror image, too: all but the first value, and the last one of an even length.
        twice = np.where((np.arange(n // 2 + 1) == 0) | (np.arange(n // 2 + 1) * 2 == n), 1.0, 2.0) / n
        counts = g.term(twice.reshape([-1 if a == at else 1 for a in range(x.rank)]), x)
        piece = g.DFT(g.dy, None, along, onesided=True) * counts
    else:
        piece = g.DFT(_fitted(g, g.dy, at, n), None, along, inverse=not inverse) * (1 / n if inverse else float(n))
    piece = _fitted(g, piece, at, size)
    if x.shape[-1] == 1 and piece.shape[-1] == 2:
        piece = g.Slice(piece, g.ints(0), g.ints(1), g.ints(-1))
    return piece, None, None


@spectral.STFT.gradient
def _(g, signal, step, window, length, *, onesided):
    batch, samples, _ = signal.shape
    hop = int(step.numbers("the step").reshape(()))
    n = samples if window is None else window.shape[0]
    if length is not None:
        n = int(length.numbers("the length").reshape(()))
    frames = max((samples - n) // hop + 1, 0)
    if not frames or not batch:
        return g.zeros(signal), None, None if window is None else g.zeros(window), None
    places = g.term(np.arange(frames)[:, None] * hop + np.arange(n))

    def computed(signal, window):
        cut = g.Gather(signal, places, axis=1)
        if window is not None:
            cut = cut * g.reshaped(window, n, 1)
        return g.DFT(cut, None, g.term(np.int64(2)), onesided=onesided)

    by_signal, by_window = g.through(computed, signal, window)
    return by_signal, None, by_window, None
