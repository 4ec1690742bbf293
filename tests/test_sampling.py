"""The sample of a suite: a share of its cases, at least one, the same in every process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sampling


class _Case(SimpleNamespace):
    def get_closest_marker(self, name: str) -> Any:
        return self.given.get(name)

    def add_marker(self, marker: Any) -> None:
        self.given[marker.name] = marker


def _cases(function: str, number: int, *markers: Any) -> list[Any]:
    return [_Case(nodeid=f"tests/{function}[{i}]", given={m.name: m for m in markers}) for i in range(number)]


def _kept(cases: list[Any]) -> list[str]:
    return [case.nodeid for case in cases if "slow" not in case.given]


@pytest.mark.parametrize(("number", "kept"), [(1, 1), (3, 1), (4, 1), (5, 2), (100, 25)])
def test_a_share_of_each_function_is_kept(number: int, kept: int) -> None:
    sampled, others = _cases("a.py::test_x", number, pytest.mark.sampled(4)), _cases("a.py::test_y", 3)
    sampling.mark(sampled + others)
    assert (len(_kept(sampled)), len(_kept(others))) == (kept, 3)
    turned = _cases("a.py::test_x", number, pytest.mark.sampled(4))[::-1]
    sampling.mark(turned)
    assert set(_kept(turned)) == set(_kept(sampled))
