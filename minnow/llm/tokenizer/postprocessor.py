"""Post-processors: the tokens that are put around a text, or around two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minnow.llm.tokenizer.part import Kinds, Part

Row = list[tuple[int, int]]
"""Ids, each with the number of the text it belongs to: 0 or 1."""

PostProcessor = Callable[[list[Row], bool], list[Row]]
"""From one text, or two, to the rows that follow each other in the result; the flag: with tokens around them."""

POST_PROCESSORS: Kinds[PostProcessor] = Kinds("post-processor")


@POST_PROCESSORS.add("TemplateProcessing")
def _(part: Part) -> PostProcessor:
    special = {
        name: Part(value, f"{part.where}.special_tokens").items("ids")
        for name, value in part.object("special_tokens").items()
    }
    templates = [_template(part, key, special) for key in ("single", "pair")]

    def fill(rows: list[Row], special: bool) -> list[Row]:
        filled: list[Row] = []
        for what, kind in templates[len(rows) - 1]:
            if isinstance(what, list):
                filled.append([(id, kind) for id in what if special])
            elif what < len(rows):
                filled.append([(id, kind) for id, _ in rows[what]])
        return filled

    return fill


def _template(part: Part, key: str, special: dict[str, list[int]]) -> list[tuple[int | list[int], int]]:
    """The pieces of a template: the number of a text, or ids; with what they belong to."""
    found: list[tuple[int | list[int], int]] = []
    for piece in part.parts(key):
        if len(piece.value) != 1:
            raise piece.error("a piece of a template is a Sequence or a SpecialToken")
        ((name, _),) = piece.value.items()
        inner = Part(piece.value[name], piece.where)
        id, kind = inner.text("id"), inner.number("type_id", 0)
        if name == "Sequence" and id in ("A", "B"):
            found.append(("AB".index(id), kind))
        elif name == "SpecialToken" and id in special:
            found.append((_ids(inner, special[id]), kind))
        else:
            raise inner.error(f"the template has an unknown {str(name)[:40]} {id[:40]!r}")
    return found


def _ids(part: Part, ids: list[Any]) -> list[int]:
    if not all(type(id) is int and 0 <= id < 1 << 31 for id in ids):
        raise part.error("'ids' are not all numbers of tokens")
    return ids


def _ends(part: Part) -> tuple[int, int]:
    """The ids of `cls`, before a text, and of `sep`, after it."""
    found = []
    for key in ("cls", "sep"):
        pair = part.items(key)
        if len(pair) != 2:
            raise part.error(f"'{key}' is no pair of a token and its id")
        found += _ids(part, pair[1:])
    return found[0], found[1]


@POST_PROCESSORS.add("BertProcessing")
def _(part: Part) -> PostProcessor:
    cls, sep = _ends(part)

    def bert(rows: list[Row], special: bool) -> list[Row]:
        if not special:
            return rows
        first: list[Row] = [[(cls, 0)], rows[0], [(sep, 0)]]
        return first + [row for other in rows[1:] for row in (other, [(sep, 1)])]

    return bert


@POST_PROCESSORS.add("RobertaProcessing")
def _(part: Part) -> PostProcessor:
    cls, sep = _ends(part)

    def roberta(rows: list[Row], special: bool) -> list[Row]:
        found: list[Row] = []
        for row in rows:
            plain = [(id, 0) for id, _ in row]
            found += [[(sep if found else cls, 0)], plain, [(sep, 0)]] if special else [plain]
        return found

    return roberta


@POST_PROCESSORS.add("ByteLevel")
def _(part: Part) -> PostProcessor:
    return lambda rows, special: rows


@POST_PROCESSORS.add("Sequence")
def _(part: Part) -> PostProcessor:
    steps = [POST_PROCESSORS.read(step) for step in part.parts("processors")]
    if sum(step.text("type") not in ("ByteLevel", "Sequence") for step in part.parts("processors")) > 1:
        raise part.error("two post-processors put tokens around the same text")

    def sequence(rows: list[Row], special: bool) -> list[Row]:
        for step in steps:
            rows = step(rows, special)
        return rows

    return sequence
