"""Command line flags from option fields, and what several commands share: value types, tables, output."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minnow.options.option import Options, choices, flags, is_names, plain_type, said, section
from minnow.options.text import input_of, names_of
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.converter.inputs.given import Given


class _ModelFile(click.Path):
    """The path of a model. A missing file, or one that is no model, is reported before slow imports."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            hint = "save it to a file first; './-' is a file of that name"
            raise UsageError("the model is '-', but reading from standard input is not supported", hint=hint)
        from minnow.converter.formats import check_readable

        check_readable(Path(value))
        return super().convert(value, param, ctx)


class _Input(click.ParamType):
    """A graph input: (name, shape and element type)."""

    name = "input"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Given]:
        if isinstance(value, tuple):
            return value
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
        super().__init__(
            [*flags(field), field.name],
            type=None if switch else _type(field),
            is_flag=switch,
            default=field.default,
            required=required,
            show_default=not switch and field.default not in (None, "", ()),
            multiple=more.repeated,
            metavar=more.metavar or ("NAME,..." if is_names(field) else None),
            help=f"{more.doc.partition(';')[0]}."
            if required
            else more.doc,  # the first part: the rest describes the default
        )


class Command(click.Command):
    """A command with flags from `options`; its help shows them by section.

    The flags are created on first use: listing all commands needs none, and creating them takes time.
    """

    _complete = False

    @property
    def params(self) -> list[click.Parameter]:
        make = getattr(self.callback, "flags", None)
        if make is not None and not self._complete:
            self._complete = True
            first = sum(isinstance(p, click.Argument) for p in self._params)
            self._params[first:first] = make()
        return self._params

    @params.setter
    def params(self, params: list[click.Parameter]) -> None:
        self._params, self._complete = params, False

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(param, "section", Options.SECTION), []).append(record)
        last = {Options.SECTION: sections.pop(Options.SECTION, [])}
        for title, records in {**sections, **last}.items():
            with formatter.section(title):
                formatter.write_dl(records)


def options(where: str, required: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a flag for each field of an option class to a `Command`, which receives an instance as `options`.

    Args:
        where: the class, for example "read.ReadOptions" for `minnow.options.read.ReadOptions`.
        required: names of required options.
    """
    module, _, name = where.partition(".")

    @functools.cache
    def kind() -> type[Options]:
        found: type[Options] = getattr(importlib.import_module(f"minnow.options.{module}"), name)
        return found

    def made() -> list[Flag]:
        return [Flag(f, section(kind(), f.name), f.name in required) for f in fields(kind()) if flags(f)]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def gathered(*args: Any, **given: Any) -> Any:
            return function(*args, options=taken(kind(), given), **given)

        gathered.flags = made  # type: ignore[attr-defined]
        return gathered

    return decorate


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
        return click.FloatRange(more.least if more.above is None else more.above, min_open=more.above is not None)
    return click.STRING if kind is str else click.Path()


def _value(field: Field[Any], value: Any) -> Any:
    """Converts the value of a flag to that of its option."""
    if field.name == "inputs":
        return dict(value) or None
    return value * said(field).unit if said(field).unit > 1 and value is not None else value


FORMAT = click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the result on standard output.",
)
QUIET = click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
STATS = click.option(
    "--stats", is_flag=True, help="Show statistics of each pass: tries, applications, nodes removed, time."
)
MODEL_FILE = _ModelFile()


def emit(value: Any, format_: str, text: Callable[[], str] | None = None) -> None:
    """Prints a result as one JSON document or as text."""
    if format_ == "json":
        click.echo(json.dumps(value, default=_plain))
    else:
        click.echo(text() if text is not None else str(value))


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], right: int = 1) -> str:
    """A text table; columns from index `right` on are right-aligned."""
    cells = [header, *([str(c) for c in row] for row in rows)]
    widths = [max(len(r[i]) for r in cells) for i in range(len(header))]
    lines = [
        "  ".join(
            c.rjust(w) if i >= right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
