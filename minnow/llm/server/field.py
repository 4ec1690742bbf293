"""Reads the fields of a request: each has a type and a range, and errors that name it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any, NoReturn

from minnow.llm.server.refusal import invalid
from minnow.options.option import said
from minnow.options.sampler import SamplerOptions

DEEPEST = 100
"""Lists and objects in one another."""


def parsed(body: bytes) -> Body:
    """The object that a body is.

    Raises:
        RequestError: it is no JSON object, or no UTF-8.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as e:
        raise invalid(f"the body is no UTF-8: byte {e.start}", code="invalid_utf8") from None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise invalid(f"the body is no JSON: {str(e)[:200]}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise invalid("the body is no JSON object", code="invalid_json")
    _check(value)
    return Body(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _check(value: dict[str, Any]) -> None:
    """Checks how deep a value is, and that its texts are Unicode: JSON can name halves of surrogate pairs."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        texts = [v for v in level if isinstance(v, str)]
        texts += [key for v in level if isinstance(v, dict) for key in v]
        for text in texts:
            if not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise invalid("a text has half of a surrogate pair", code="invalid_utf8") from None
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        level = [v for values in inner for v in values]
        if not level:
            return
    raise invalid(f"the body has more than {DEEPEST} lists and objects in one another", code="invalid_json")


class Body:
    """The fields of a request. A field that is null is missing."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {name: value for name, value in fields.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> Any:
        """A field as it is."""
        return self._fields.get(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """A field that is true or false."""
        value = self._fields.get(name, default)
        if not isinstance(value, bool):
            raise invalid(f"'{name}' is neither true nor false", name)
        return value

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int | None:
        """A field that is a whole number within a range."""
        value = self._fields.get(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"'{name}' is no whole number", name)
        if not least <= value <= most:
            raise invalid(f"'{name}' is {value}, not from {least} to {most}", name)
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """A field that is a number within a range."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise invalid(f"'{name}' is no number", name)
        if not least <= value <= most:
            raise invalid(f"'{name}' is {value:g}, not from {least:g} to {most:g}", name)
        return float(value)

    def text(self, name: str, default: str = "") -> str:
        """A field that is text."""
        value = self._fields.get(name, default)
        if not isinstance(value, str):
            raise invalid(f"'{name}' is no text", name)
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """A field that is text, or a list of texts."""
        value = self._fields.get(name, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
            raise invalid(f"'{name}' is neither text nor a list of texts that are not empty", name)
        if len(value) > most:
            raise invalid(f"'{name}' has {len(value)} texts, and {most} are allowed", name)
        return value

    def documents(self, name: str, most: int) -> list[str]:
        """A field that is a list of texts, or of objects with a `text`."""
        value = self._fields.get(name, [])
        if not isinstance(value, list):
            raise invalid(f"'{name}' is no list of texts", name)
        return Body({name: [one.get("text") if isinstance(one, dict) else one for one in value]}).texts(name, most)

    def table(self, name: str) -> Mapping[str, Any] | None:
        """A field that is an object."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise invalid(f"'{name}' is no object", name)
        return value

    def sampler(self, vocabulary: int) -> dict[str, Any]:
        """The fields that are options of samplers, by the names that the options have."""
        out: dict[str, Any] = {}
        for f in fields(SamplerOptions):
            if f.name not in self._fields or said(f).only_python:
                continue
            kind = int if f.name == "seed" or isinstance(f.default, int) else float
            value = self.whole(f.name, -(2**63), 2**63) if kind is int else self.number(f.name, -1e9, 1e9)
            out[f.name] = value % 2**63 if f.name == "seed" and value is not None else value
        bias = {self._token(name, vocabulary): v for name, v in (self.table("logit_bias") or {}).items()}
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) <= 100 for v in bias.values()):
            raise invalid("'logit_bias' has something else than numbers from -100 to 100", "logit_bias")
        if bias:
            out["logit_bias"] = bias
        return out

    def _token(self, name: str, vocabulary: int) -> int:
        if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) < vocabulary):
            raise invalid(f"'logit_bias' names {name[:20]!r}, which is no token of the vocabulary", "logit_bias")
        return int(name)
