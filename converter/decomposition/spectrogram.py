"""Spectrograms of audio, and mel-frequency cepstral coefficients, as TensorFlow and TFLite have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import bounded, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

_LONGEST = 1 << 20


def spectrogram(b: Builder, signal: Value, window_size: int, stride: int, squared: bool) -> Value:
    """Magnitudes, or their squares, [channels, windows, bins] of a signal [samples, channels] under Hann windows.

    Windows are padded with zeros to a power of two.
    """
    if not 1 < window_size <= _LONGEST or stride < 1:
        raise ModelError(f"a window of {window_size} samples with stride {stride} is invalid")
    length = 1 << (window_size - 1).bit_length()
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    window = np.zeros(length, np.float32)
    window[:window_size] = hann
    channels = b.Transpose(signal, perm=(1, 0))
    padded = b.Pad(channels, np.array([0, 0, 0, length - window_size]))
    y = b.STFT(b.Unsqueeze(padded, axes=(2,)), np.array(stride), window)
    made: Value = (b.ReduceSumSquare if squared else b.ReduceL2)(y, axes=(-1,), keepdims=False)
    return made


def mfcc(b: Builder, spectrum: Value, rate: int, band: tuple[float, float], channels: int, coefficients: int) -> Value:
    """Mel-frequency cepstral coefficients of squared magnitudes [..., bins].

    Args:
        rate: samples in a second.
        band: lowest and highest frequency.
        channels: of the filter bank.
        coefficients: how many are kept.
    """
    bins = static_dim(spectrum.type, -1, "a spectrogram")
    if bins < 2 or rate < 1 or not 0 <= band[0] < band[1] or min(channels, coefficients) < 1:
        raise ModelError(
            f"MFCC of {channels} channels, {band[0]} to {band[1]} Hz, is invalid for {bins} bins at {rate} Hz"
        )
    bounded(max(bins, coefficients) * channels, "the filter bank")
    weights = _mel(bins, rate, band[0], band[1], channels)
    places = np.outer(np.arange(channels) + 0.5, np.arange(coefficients)) * np.pi / channels
    energy = b.MatMul(b.Sqrt(spectrum), weights.astype(np.float32))
    cosines = (np.sqrt(2 / channels) * np.cos(places)).astype(np.float32)
    made: Value = b.MatMul(b.Log(b.Max(energy, 1e-12)), cosines)
    return made


def _mel(bins: int, rate: int, low: float, high: float, channels: int) -> np.ndarray[Any, Any]:
    """How much each bin of a spectrum counts for each channel of TensorFlow's filter bank."""

    def mel(f: Any) -> Any:
        return 1127 * np.log1p(f / 700)

    start = mel(low)
    step = (mel(high) - start) / (channels + 1)
    centers = start + step * (np.arange(channels + 1) + 1)
    hertz = 0.5 * rate / (bins - 1)
    matrix = np.zeros((bins, channels))
    for i in range(int(1.5 + low / hertz), min(int(high / hertz), bins - 1) + 1):
        at = mel(i * hertz)
        band = int(np.searchsorted(centers[:channels], at, "left")) - 1
        left = centers[band] if band >= 0 else start
        part = (centers[band + 1] - at) / (centers[band + 1] - left)
        if band >= 0:
            matrix[i, band] += part
        if band + 1 < channels:
            matrix[i, band + 1] += 1 - part
    return matrix
