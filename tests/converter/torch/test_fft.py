"""PyTorch's Fourier transforms, and the complex numbers between them, which travel as pairs of real ones."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")

import torch
from torch import fft
from torch_oracle import Call, check, model_of

from minnow.schema.errors import UnsupportedError

pytestmark = pytest.mark.slow

WINDOW = torch.hann_window(16)


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _real(x):
    return torch.view_as_real(x.resolve_conj())


def _complex(x):
    return torch.view_as_complex(x)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(("n", "dim"), [(None, -1), (5, 0), (12, 1), (1, 0)])
def test_one_axis(n, dim, norm):
    given = {"n": n, "dim": dim, "norm": norm}
    to_complex, to_real = (fft.fft, fft.ifft, fft.rfft, fft.ihfft), (fft.irfft, fft.hfft)

    def of_real(x):
        return [*(_real(f(x, **given)) for f in to_complex), *(f(x, **given) for f in to_real)]

    def of_complex(x):
        return [*(_real(f(_complex(x), **given)) for f in to_complex[:2]), *(f(_complex(x), **given) for f in to_real)]

    check(of_real, _random(7, 9))
    check(of_complex, _random(3, 7, 2))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(
    ("s", "dim"), [(None, None), ((4, 6), None), ((5, 3), (0, 1)), (None, (0, 2)), ((3,), (1,)), ((4, -1), (0, 1))]
)
def test_several_axes(s, dim, norm):
    given = {"s": s, "dim": dim, "norm": norm}

    def call(x):
        to_complex, to_real = (fft.fftn, fft.ifftn, fft.rfftn, fft.ihfftn), (fft.irfftn, fft.hfftn)
        return [*(_real(f(x, **given)) for f in to_complex), *(f(x, **given) for f in to_real)]

    check(call, _random(3, 7, 5))


def test_two_axes():
    def call(x):
        to_complex, to_real = (fft.fft2, fft.ifft2, fft.rfft2, fft.ihfft2), (fft.irfft2, fft.hfft2)
        return [*(_real(f(x)) for f in to_complex), *(f(x) for f in to_real), fft.irfft2(fft.rfft2(x), s=(6, 5))]

    check(call, _random(2, 6, 5))


def test_frequencies():
    def call(x):
        return [
            *(f(x, **k) for f in (fft.fftshift, fft.ifftshift) for k in ({}, {"dim": 1}, {"dim": (0,)})),
            _real(fft.fftshift(fft.fft(x))),
            x[0, :9] + fft.fftfreq(9, 0.5),
            x[0, :5] + fft.rfftfreq(9),
        ]

    check(call, _random(5, 10))


def test_complex_numbers():
    def call(x, y):
        a, c = _complex(x), _complex(y)
        products = [a * c, a * c.conj(), a * 2.5, a * y[..., 0], y[..., 1] * a, torch.complex(x, y), torch.polar(x, y)]
        return [a.abs(), a.angle(), a.real, a.imag, a.conj().imag, *map(_real, products)]

    check(call, _random(3, 7, 2), _random(3, 7, 2, seed=1))


def test_other_types():
    check(lambda x: fft.rfft(x).abs(), torch.arange(12).reshape(2, 6))
    check(lambda x: [fft.rfft(x).abs(), fft.irfft(fft.rfft(x))], _random(3, 10).double())


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 5}, {"center": False}, {"normalized": True}, {"onesided": False}, {"pad_mode": "constant"}],
    ids=str,
)
def test_stft(options):
    def call(x, window):
        made = torch.stft(x, 16, window=window, return_complex=True, **options)
        return [_real(made), made.abs(), made.angle().cos(), made.real]

    for x in (_random(2, 50), _random(33)):
        check(call, x, WINDOW, tolerance=1e-4)


def test_stft_of_short_windows():
    check(lambda x: torch.stft(x, 21, 4, 16, WINDOW, return_complex=True).abs(), _random(2, 50))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(lambda x: torch.stft(x, 21, return_complex=True).abs(), _random(50))
        check(lambda x: torch.stft(x, 16, window=WINDOW, return_complex=False), _random(50))


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 5}, {"normalized": True}, {"onesided": False}, {"length": 48}, {"length": 70}],
    ids=str,
)
def test_istft(options):
    spectral = {k: v for k, v in options.items() if k != "length"}

    def call(x, window):
        spectra = torch.stft(x, 16, window=window, return_complex=True, **spectral)
        return torch.istft(spectra, 16, window=window, **options)

    for x in (_random(2, 50), _random(33)):
        check(call, x, WINDOW)


def test_filter_in_frequency():
    check(lambda x, y: fft.irfft(fft.rfft(x, n=20) * fft.rfft(y, n=20), n=20), _random(3, 10), _random(3, 10, seed=1))


@pytest.mark.parametrize("road", ["export", "trace"])
def test_other_operators_refuse_complex_numbers(road):
    for function in (lambda x: (fft.fft(x) + 1).abs(), lambda x: torch.cat([fft.fft(x)] * 2).abs(), fft.fft):
        with pytest.raises(UnsupportedError, match="complex numbers"):
            model_of(Call(function), [_random(4, 5)], road)


def test_changes_in_place_of_parts_are_not_missed():
    def change(x):
        spectrum = fft.fft(x)
        torch.view_as_real(spectrum).mul_(2)
        return spectrum.abs()

    with pytest.raises(UnsupportedError, match="in-place change"):
        model_of(Call(change), [_random(4, 5)], "trace")
    check(lambda x: torch.view_as_real(fft.fft(x)).mul_(2), _random(4, 5))
