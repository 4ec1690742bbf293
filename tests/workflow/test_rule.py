"""Rules: what reports show of them, and the kinds of notices that the converter gives."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from minnow.schema.notice import Notice, kind_of
from minnow.workflow.rule import RULES

ROOT = Path(__file__).parents[2]


def kinds_in_the_sources() -> dict[str, str]:
    """Kinds of notices, each with a file that gives one."""
    found = {}
    for folder in ("converter", "optimizer", "minnow", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            if "Notice(" not in (source := path.read_text()):
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Notice":
                    kind = node.args[1] if len(node.args) > 1 else None
                    assert isinstance(kind, ast.Constant), f"{path}:{node.lineno}: a notice without a kind"
                    found[str(kind.value)] = f"{path}:{node.lineno}"
    return found


def test_every_kind_of_notice_is_a_rule_and_every_rule_of_notices_is_given() -> None:
    kinds = kinds_in_the_sources()
    assert len(kinds) >= 8
    assert not kinds.keys() - RULES.keys()
    notes = {rule.name for rule in RULES.values() if rule.level == "note"}
    assert notes - kinds.keys() == {"notice"}


@pytest.mark.parametrize("name", RULES)
def test_texts_are_sentences_for_lists_of_alerts(name: str) -> None:
    rule = RULES[name]
    assert rule.title.endswith(".")
    assert "\n" not in rule.title + rule.help
    assert len(rule.title) <= 80
    assert rule.help.endswith(".") or rule.help.endswith("`.")
    assert rule.tags or name == "notice"
    assert rule.exit_code == 0 or rule.level == "error"


def test_a_notice_is_a_string_with_a_kind() -> None:
    assert Notice("a", "lossy-cast") == "a"
    assert kind_of(Notice("a", "lossy-cast")) == "lossy-cast"
    assert kind_of("a") == kind_of(Notice("a")) == "notice"
