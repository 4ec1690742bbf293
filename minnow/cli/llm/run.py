"""mnnconvert llm run"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, Command, emit, options
from minnow.cli.llm._folder import FOLDER, loaded, messages, standard_input, with_schema, write

if TYPE_CHECKING:
    from minnow.options.generate import RunLanguageCommand


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=FOLDER)
@options("generate.RunLanguageCommand")
@FORMAT
def command(folder: str, options: RunLanguageCommand, format_: str) -> None:
    """Write one answer of a language model.

    The answer is on standard output while it is written; with --format json it is one object, with tokens and times.
    """
    from minnow.cli._log import note
    from minnow.options.generate import AnswerOptions, LanguageOptions
    from minnow.schema.errors import UsageError

    answer = with_schema(options.only(AnswerOptions))
    prompt = standard_input() if options.prompt is None else options.prompt
    if options.raw and options.system:
        raise UsageError("--raw takes no system message")
    llm = loaded(folder, options.only(LanguageOptions))
    chats = not options.raw and llm.has_template
    if not chats and options.system:
        raise UsageError("the model has no chat template, and takes no system message", where=folder)
    given = messages(options.system, {"role": "user", "content": prompt}) if chats else prompt
    with llm.generate(given, **vars(answer)) as generation:
        if format_ == "json":
            emit(generation.result, format_)
            return
        for piece in generation:
            write(piece)
        click.echo()
    result = generation.result
    if result.reason == "length" and options.max_tokens is None:
        note("the answer has filled the context")
