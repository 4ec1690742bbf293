"""How much of the large suites the everyday tests run: a sample.

`./dev test --full` runs all of them, as does a call that names a test.
For the cases of a parametrized test there is a marker: `@pytest.mark.sampled(n)`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import pytest

everyday = False


def configure(config: pytest.Config) -> None:
    """Before the test modules are imported: are these the everyday tests?"""
    global everyday
    everyday = config.option.markexpr == "not slow"


def one_in(n: int) -> int:
    """The step from one case to the next, for loops over cases."""
    return n if everyday else 1


def some_of(count: int, n: int = 4) -> int:
    """How many random examples: `count`, or the n-th part of them."""
    return max(count // one_in(n), 1)


def chosen(request: pytest.FixtureRequest, test: str) -> list[Mapping[str, Any]]:
    """The parameters of all cases of a test that will run, for a fixture that prepares them together."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    return [i.callspec.params for i in items if i.originalname == test and i.path == request.path]


def mark(items: list[pytest.Item]) -> None:
    """`sampled(n)`: one case of n is for every day, and at least one of each function; the others are slow.

    The hashes of their names choose the cases, so that they differ in all parameters.
    """
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        cases.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in cases[-(-len(cases) // marker.args[0]) :]:
            item.add_marker(pytest.mark.slow)
