"""Finds the calls of tools in answers, in the forms that families of models write them.

| form | models |
|---|---|
| `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` | Qwen, Hermes, SmolLM |
| `[TOOL_CALLS][{"name": ..., "arguments": {...}}]` | Mistral |
| `<|python_tag|>{"name": ..., "parameters": {...}}`, or such an object alone | Llama 3 |
| `functools[{"name": ..., "arguments": {...}}]` | Phi |
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

MARKS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "functools[")
"""How a call may begin, unless it is the whole answer."""

_TAGGED = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|$)", re.DOTALL)
_LISTED = re.compile(r"(?:\[TOOL_CALLS\]\s*|functools)(\[.*\])", re.DOTALL)
_ALONE = re.compile(r"\s*(?:<\|python_tag\|>)?\s*(\{.*\}|\[.*\])\s*", re.DOTALL)


class Call(NamedTuple):
    """A call of a tool: its name, and its arguments as JSON."""

    name: str
    arguments: str


def calls_in(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """What an answer says besides calls, and its calls. What is no call of one of these tools is text."""
    pieces = _TAGGED.findall(text)
    if pieces:
        found = [call for piece in pieces for call in _calls(piece, names)]
        if len(found) == len(pieces):
            return _TAGGED.sub("", text).strip(), found
        return text, []
    if (listed := _LISTED.search(text)) and (found := _calls(listed[1], names)):
        return (text[: listed.start()] + text[listed.end() :]).strip(), found
    if (alone := _ALONE.fullmatch(text)) and (found := _calls(alone[1], names)):
        return "", found
    return text, []


def may_begin(text: str, first: bool) -> bool:
    """Whether a call may begin with or in this text, the `first` of an answer or a later one: it is not sent yet."""
    if first and text.lstrip()[:1] in ("", "{", "["):
        return True
    return any(mark in text for mark in MARKS) or any(
        text.endswith(mark[:n]) for mark in MARKS for n in range(1, len(mark))
    )


def _calls(piece: str, names: Collection[str]) -> list[Call]:
    try:
        value = json.loads(piece)
    except (ValueError, RecursionError):
        return []
    found = [_call(item, names) for item in (value if isinstance(value, list) else [value])]
    return [] if None in found else [call for call in found if call is not None]


def _call(value: Any, names: Collection[str]) -> Call | None:
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    name = value.get("name")
    given = value.get("arguments", value.get("parameters", {}))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return None
    if not isinstance(name, str) or name not in names or not isinstance(given, dict):
        return None
    return Call(name, json.dumps(given, ensure_ascii=False))
