"""Flags on the command line, made of option fields. Imported when a command needs its flags."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

import click

from minnow.options.option import Options, choices, flags, is_names, plain_type, said, section
from minnow.options.text import input_of, names_of
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from minnow.converter.inputs.given import Given


_PLACEHOLDERS = {int: "N", float: "X"}


class _Input(click.ParamType):
    """A graph input: (name, shape and element type)."""

    name = "input"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Given]:
        if isinstance(value, tuple):
            return value
        if ctx is not None and ctx.resilient_parsing:
            self.fail("not looked at for a completion", param, ctx)
        try:
            return input_of(str(value))
        except UsageError as e:
            self.fail(e.message, param, ctx)


class _Names(click.ParamType):
    """Names separated by commas."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return names_of(value) if isinstance(value, str) else tuple(value)


class Flag(click.Option):
    """The flag of an option.

    Attributes:
        field: the option.
        section: the heading in the help.
    """

    def __init__(self, field: Field[Any], section: str, required: bool) -> None:
        self.field, self.section = field, section
        more, switch = said(field), plain_type(field) is bool
        doc = f"{more.doc.partition(';')[0]}." if required else more.doc  # what follows ";" is about the default
        super().__init__(
            [*flags(field), field.name],
            type=None if switch else _type(field),
            is_flag=switch,
            default=field.default,
            required=required,
            show_default=not switch and field.default not in (None, "", ()),
            multiple=more.repeated,
            metavar=more.metavar or ("NAME,..." if is_names(field) else _PLACEHOLDERS.get(plain_type(field))),
            help=doc,
        )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from minnow.cli._complete import items_of

        found = items_of(self.field, ctx, incomplete)
        return super().shell_complete(ctx, incomplete) if found is None else found


def flags_of(kind: type[Options], required: Collection[str] = ()) -> list[Flag]:
    """A flag for each field of an option class that has one; `required` are the names of required options."""
    return [Flag(f, section(kind, f.name), f.name in required) for f in fields(kind) if flags(f)]


def taken(kind: type[Options], given: dict[str, Any]) -> Options:
    """Removes the values of a class's flags from `given`, and makes an instance of them."""
    return kind(**{f.name: _value(f, given.pop(f.name)) for f in fields(kind) if flags(f)})


def _type(field: Field[Any]) -> click.ParamType:
    """The click type for the value of a flag."""
    more, kind = said(field), plain_type(field)
    if choices(field):
        return click.Choice(choices(field))
    if is_names(field):
        return _Names()
    if field.name == "inputs":
        return _Input()
    if kind is int:
        least = None if more.least is None else -(-int(more.least) // more.unit)
        return click.INT if more.least is None else click.IntRange(least, None if more.most is None else int(more.most))
    if kind is float:
        low = more.least if more.above is None else more.above
        return click.FloatRange(low, more.most, min_open=more.above is not None)
    return click.STRING if kind is str else click.Path()


def _value(field: Field[Any], value: Any) -> Any:
    """Converts the value of a flag to that of its option."""
    if field.name == "inputs":
        return dict(value) or None
    return value * said(field).unit if said(field).unit > 1 and value is not None else value
