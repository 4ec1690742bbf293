"""Options as the words of a command line, from which the command gets equal options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any

from minnow.options.option import Options, flags, is_names, plain_type, said
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.converter.inputs.given import Given

NAMES = ","
"""The separator of names."""


def words(options: Options) -> list[str]:
    """The flags for all options that differ from their defaults, except for those that have no flag."""
    changed = options.changed()
    return [word for f in fields(options) if f.name in changed and flags(f) for word in _words(f, changed[f.name])]


def names_of(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(n for n in text.split(NAMES) if n)


def input_of(text: str) -> tuple[str, Given]:
    """Name, and shape and element type, of a graph input from `NAME=1x3x224x224` or `NAME=int64[1,128]`.

    Raises:
        UsageError: the text has neither form.
    """
    from minnow.converter.inputs.given import parsed

    name, _, rest = text.rpartition("=")
    if not name:
        raise UsageError(f"{text!r} is not of the form NAME=1x3x224x224 or NAME=int64[1,128]")
    try:
        return name, parsed(rest)
    except UsageError as e:
        raise UsageError(f"{text!r}: {e.message} ({e.hint})") from None


def _words(f: Field[Any], value: Any) -> list[str]:
    flag = flags(f)[0] if len(flags(f)) == 1 else next(name for name in flags(f) if name.startswith("--"))
    if plain_type(f) is bool:
        yes, _, no = flag.partition("/")
        return [yes if value else no]
    if f.name == "inputs":
        return [f"{flag}={name}={text}" for name, text in _inputs(value).items()]
    if is_names(f):
        return [f"{flag}={NAMES.join(value)}"]
    if said(f).repeated:
        return [f"{flag}={os.fspath(one)}" for one in ([value] if isinstance(value, (str, os.PathLike)) else value)]
    if said(f).unit > 1:
        value = -(-value // said(f).unit)
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return [f"{flag}={text}" if flag.startswith("--") else f"{flag}{text}"]


def _inputs(value: Any) -> Mapping[str, str]:
    """The texts of the inputs with known names. A symbolic dimension becomes "?", which leaves it unchanged, too."""
    from minnow.converter.inputs.given import Inputs, text_of

    def text(given: Given) -> str:
        shape = given.shape and tuple(d if isinstance(d, int) else "?" for d in given.shape)
        return text_of(replace(given, shape=shape))

    return {name: text(given) for name, given in Inputs.of(value).items()}
