"""Calls of all functions, mostly with arguments that fit: each returns, or raises an error that says what is wrong."""

from __future__ import annotations

import pytest

from tests.fuzz import image_calls


def test_some_calls() -> None:
    findings, ended = image_calls.run(1500, 0)
    assert not findings, "\n".join(findings)
    assert len(ended) > 60
    assert sum(counts["returned"] for counts in ended.values()) > 300


@pytest.mark.slow
def test_many_calls() -> None:
    findings, ended = image_calls.run(40_000, 1)
    assert not findings, "\n".join(findings)
    assert [name for name, counts in ended.items() if counts["returned"] < 10] == []
