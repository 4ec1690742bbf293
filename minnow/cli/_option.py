"""What several commands share: flags from option classes, the path of a model, tables, output."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._log import flags
from minnow.cli._terminal import show
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from minnow.cli._flag import Flag
    from minnow.options.option import Options


class _ModelFile(click.Path):
    """The path of a model. A missing file, or one that is not a model, is reported before slow imports.

    Args:
        sources: it may have any format, not only that of .mnn files.
    """

    def __init__(self, sources: bool) -> None:
        super().__init__()
        self._sources = sources

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from minnow.converter.formats import formats

        suffixes = [".mnn"]
        if self._sources:
            suffixes += [suffix for format in formats().values() for suffix in format.suffixes]
        return [CompletionItem(incomplete, type="file", suffixes=suffixes)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is not None and ctx.resilient_parsing:
            return value
        if value == "-":
            hint = "save it to a file first; './-' is a file of that name"
            raise UsageError("the model is '-', but reading from standard input is not supported", hint=hint)
        from minnow.converter.formats import check_readable

        check_readable(Path(value))
        return super().convert(value, param, ctx)


class Command(click.Command):
    """A command with flags from `options`, and those of the log; its help shows them by section.

    The flags are created on first use: listing all commands needs none, and creating them takes time.
    """

    _complete = False

    @property
    def params(self) -> list[click.Parameter]:
        if not self._complete:
            self._complete = True
            make = getattr(self.callback, "flags", list)
            first = sum(isinstance(p, click.Argument) for p in self._params)
            self._params[first:first] = make()
            self._params += flags()
        return self._params

    @params.setter
    def params(self, params: list[click.Parameter]) -> None:
        self._params, self._complete = params, False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as e:
            if "unexpected extra argument" in e.message and any("-o" in param.opts for param in self.params):
                raise click.UsageError(f"{e.message}; the output file is given with -o", ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, records in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The help of the options by section: flags with the placeholders of their values, and what they do."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        last = sections.pop("Options", [])
        return {**sections, "Options": last}


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
        from minnow.cli._flag import flags_of

        return flags_of(kind(), required)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def gathered(*args: Any, **given: Any) -> Any:
            from minnow.cli._flag import taken

            return function(*args, options=taken(kind(), given), **given)

        gathered.flags = made  # type: ignore[attr-defined]
        return gathered

    return decorate


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
MODEL_FILE = _ModelFile(sources=True)
MNN_FILE = _ModelFile(sources=False)


def emit(value: Any, format_: str, text: Callable[[], str] | None = None) -> None:
    """Prints a result as one JSON document or as text."""
    if format_ == "json":
        click.echo(json.dumps(value, default=_plain))
    else:
        show(text() if text is not None else str(value))


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
