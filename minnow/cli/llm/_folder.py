"""What the commands for language models share: the folder of a model, and its prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from minnow.cli._log import step
from minnow.cli._terminal import plain
from minnow.schema.errors import FormatError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from minnow.llm.llm import LLM
    from minnow.options.generate import AnswerOptions, LanguageOptions


class _Folder(click.Path):
    """The folder of a language model. One that is missing, or something else, is reported before slow imports."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is None or not ctx.resilient_parsing:
            from minnow.llm.description import Description

            Description.read(value)
        return super().convert(value, param, ctx)


FOLDER = _Folder()


def loaded(folder: str, options: LanguageOptions) -> LLM:
    """The language model of a folder."""
    import minnow.llm

    with step(f"load {folder}"):
        return minnow.llm.load(folder, **vars(options))


def with_schema(options: AnswerOptions) -> AnswerOptions:
    """The options with the JSON schema itself, in place of the name of its file.

    Raises:
        FormatError: the file is no JSON object.
    """
    if options.json_schema is None:
        return options
    import json
    from dataclasses import replace

    try:
        with open(options.json_schema, encoding="utf-8") as file:
            schema = json.load(file)
    except (OSError, ValueError, RecursionError) as e:
        raise FormatError("cannot read the JSON schema", where=str(options.json_schema), why=str(e)[:200]) from None
    if not isinstance(schema, dict):
        raise FormatError("the JSON schema is no object", where=str(options.json_schema))
    return replace(options, json_schema=schema)


def messages(system: str, *rest: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages, with the system message in front if there is one."""
    return [*([{"role": "system", "content": system}] if system else []), *rest]


def standard_input() -> str:
    """All of standard input.

    Raises:
        UsageError: it is a terminal, or no UTF-8.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("there is no prompt", hint="give -p TEXT, or pipe it into the command")
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as e:
        raise UsageError("standard input is no UTF-8", why=str(e)) from None


def write(piece: str) -> None:
    """Prints a piece of an answer at once. A terminal gets no control characters."""
    click.echo(plain(piece) if sys.stdout.isatty() else piece, nl=False)
    sys.stdout.flush()
