"""Charts: areas, positions and texts say what the numbers say."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minnow.report.drawing.chart import Mark, distributions, histogram, roofline, squarified, steps


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=60), st.floats(20, 500), st.floats(20, 500))
def test_rectangles_have_their_areas_and_fill_the_whole(sizes: list[float], width: float, height: float) -> None:
    sizes = sorted(sizes, reverse=True)
    boxes = squarified(sizes, 0, 0, width, height)
    total = sum(sizes)
    for size, (x, y, w, h) in zip(sizes, boxes, strict=True):
        assert w * h == pytest.approx(size / total * width * height, rel=1e-6)
        assert -1e-6 <= x <= x + w <= width * (1 + 1e-6)
        assert -1e-6 <= y <= y + h <= height * (1 + 1e-6)
    for k, (x, y, w, h) in enumerate(boxes):
        for u, v, a, b in boxes[:k]:
            overlap = min(x + w, u + a) - max(x, u), min(y + h, v + b) - max(y, v)
            assert min(overlap) <= 1e-6 * (width + height)


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', svg)]


@given(st.floats(0.01, 300))
def test_what_is_as_fast_as_it_can_be_is_on_the_roof(intensity: float) -> None:
    flops, bandwidth = 1e11, 2e10
    fast = Mark(intensity, min(flops, intensity * bandwidth), "")
    svg = roofline([fast], flops, bandwidth, label="")
    ((x, y),) = points(svg)
    found = re.search(r'class="roof" d="M([-\d.]+) ([-\d.]+)L([-\d.]+) ([-\d.]+)H([-\d.]+)"', svg)
    assert found
    a, b, c, d, e = map(float, found.groups())
    assert a - 0.2 <= x <= e + 0.2
    assert y == pytest.approx(d if x >= c else b + (d - b) * (x - a) / (c - a), abs=0.5)


def test_a_histogram_is_logarithmic_and_has_a_bar_for_each_bin_with_elements() -> None:
    svg = histogram([0, 1, 10, 100, 0], str, [], label="errors", limit=2)
    heights = [float(h) for h in re.findall(r'<rect class="after"[^>]* height="([\d.]+)"', svg)]
    assert len(heights) == 3
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0], abs=0.2)
    assert svg.count('class="limit"') == 1


def test_latencies_show_median_and_tail() -> None:
    times = [float(k) for k in range(1, 101)]
    svg = distributions([("one", times, "after"), ("other", [2 * t for t in times], "before")], label="")
    assert "median 51 ms, 90% 90 ms" in svg
    assert "median 102 ms, 90% 180 ms" in svg


@pytest.mark.parametrize("count", [3, 5000])
def test_steps_keep_their_peak(count: int) -> None:
    values = [1.0] * count
    values[count // 2] = 7.0
    svg = steps(values, lambda n: f"{n:g} B", label="", across="")
    assert "7 B" in svg
    found = re.search(r'class="limit" d="M([\d.]+)', svg)
    assert found
    place = (float(found[1]) - 46) / (360 - 46 - 10)
    assert math.isclose(place, (count // 2 + 0.5) / count, abs_tol=0.01)
