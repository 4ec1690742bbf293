"""SECURITY.md promises nothing that is not tested, and docs/security.md has the limits as the code has them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
UNITS = {"": 1, "MiB": 1 << 20, "GiB": 1 << 30, "minutes": 60}


def rows(title: str) -> list[list[str]]:
    """The rows of the first table behind a title."""
    table = PAGE.partition(f"\n## {title}\n")[2].partition("\n|---")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()[1:]]


PROMISES = {row[0]: re.findall(r"`([^`]+)`", row[1]) for row in rows("Promises")}
LIMITS = [row for row in rows("Limits") if ":" in row[-1]]


def test_every_promise_is_in_the_table() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promised = text.partition("## What you can rely on\n")[2].partition("\n[docs/security.md]")[0]
    items = [" ".join(item.split()) for item in ("\n" + promised.strip()).split("\n- ")[1:]]
    assert items == list(PROMISES)


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_of_a_promise_exist(promise: str) -> None:
    assert PROMISES[promise]
    for test in PROMISES[promise]:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def number_in_code(place: str) -> int:
    """A constant by file and name: of Python, also of a tuple or a class, or of C++."""
    path, _, name = place.partition(":")
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
                return int(eval(ast.unparse(node.value), {}))
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                names = [ast.unparse(n) for n in node.targets[0].elts]
                if name in names:
                    return int(eval(ast.unparse(node.value), {})[names.index(name)])
        raise AssertionError(f"{place}: not found")
    found = re.search(rf"{name} = ([^,;]+)[,;]", text) or re.search(rf"{name}\([^)]*\) {{ return (\d+)", text)
    assert found, place
    return int(eval(re.sub(r"int64_t\{(\d+)\}", r"\1", found[1]), {}))


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row[-1])
def test_limits_are_those_of_the_code(row: list[str]) -> None:
    number, _, unit = row[1].partition(" ")
    assert int(number.replace(",", "")) * UNITS[unit] == number_in_code(row[-1].strip("`"))
    factor = re.match(r"(\d+) ", row[2])
    if factor and row[-1].endswith(("most_copies`", "most_replacements`")):
        path, _, name = row[-1].strip("`").partition(":")
        assert f"+ {factor[1]} * declared" in (ROOT / path).read_text(encoding="utf-8").partition(name)[2][:80]


def test_there_are_limits() -> None:
    assert len(LIMITS) >= 12
