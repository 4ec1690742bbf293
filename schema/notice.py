"""Notices of a conversion: sentences for the user, each with a kind that reports can filter by."""

from __future__ import annotations


class Notice(str):
    """A sentence that the user should know, with the name of the rule in reports that it belongs to.

    Attributes:
        kind: the name of the rule, of `minnow.workflow.rule.RULES`.
    """

    __slots__ = ("kind",)
    kind: str

    def __new__(cls, text: str, kind: str = "notice") -> Notice:
        made = super().__new__(cls, text)
        made.kind = kind
        return made


def kind_of(text: str) -> str:
    """The kind of a notice; "notice" for any other text."""
    return text.kind if isinstance(text, Notice) else "notice"
