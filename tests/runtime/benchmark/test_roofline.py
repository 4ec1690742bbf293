"""The roofline of a profile: measured once, kept in a file, and right where it can be counted by hand."""

from __future__ import annotations

import json

import pytest

from minnow.runtime import _engine
from minnow.runtime.benchmark import roofline as module
from minnow.runtime.benchmark.roofline import Roofline, roofline


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A cache of its own; the list grows with each measurement."""
    calls: list[int] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def measure(threads):
        calls.append(threads)
        return 1e11 * threads, 1e10

    monkeypatch.setattr(_engine, "measure_peak", measure)
    return calls


def test_rates_of_a_row():
    limit = Roofline(flops=100e9, bytes=10e9)
    busy = limit.rates({"ms": 2.0, "macs": 50_000_000, "bytes": 1000})
    assert busy == pytest.approx({"gflops": 50.0, "gbytes": 0.0005, "roofline": 0.5})
    moving = limit.rates({"ms": 2.0, "macs": 0, "bytes": 5_000_000})
    assert moving == pytest.approx({"gflops": 0.0, "gbytes": 2.5, "roofline": 0.25})
    assert limit.rates({"ms": 0.0, "macs": 1, "bytes": 1})["roofline"] == 0


def test_measured_once_per_number_of_threads(measured):
    assert [roofline(n, "1.2") for n in (1, 1, 2)] == [Roofline(1e11, 1e10)] * 2 + [Roofline(2e11, 1e10)]
    assert roofline(1, "1.3") == Roofline(1e11, 1e10)
    assert measured == [1, 2, 1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"%s": 3}', '{"%s": {"flops": 1}}'])
def test_a_damaged_file_is_measured_again(measured, tmp_path, text):
    roofline(1, "1.2")
    path = tmp_path / "minnow" / "roofline.json"
    (key,) = json.loads(path.read_text())
    path.write_text(text.replace("%s", key))
    assert roofline(1, "1.2") == Roofline(1e11, 1e10)
    assert roofline(1, "1.2") == Roofline(1e11, 1e10)
    assert measured == [1, 1]


def test_a_cache_that_cannot_be_written_does_no_harm(measured, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert roofline(1, "1.2") == Roofline(1e11, 1e10)
    assert module._processor()


def test_what_is_measured_is_plausible():
    flops, size = _engine.measure_peak(1)
    assert 1e8 < flops < 1e13
    assert 1e8 < size < 1e13
