"""mnnconvert llm chat"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minnow.cli._option import Command, options
from minnow.cli.llm._folder import FOLDER, loaded, messages, with_schema, write

if TYPE_CHECKING:
    from minnow.llm.generation import Generation
    from minnow.llm.llm import LLM
    from minnow.options.generate import AnswerOptions, ChatCommand

_HELP = "/reset begins anew, /exit or Ctrl-D ends the chat, Ctrl-C also stops an answer"


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=FOLDER)
@options("generate.ChatCommand")
def command(folder: str, options: ChatCommand) -> None:
    """Chat with a language model: each line is a message.

    The line /reset begins anew, and /exit ends the chat. When the context is full, the oldest messages are forgotten.
    """
    import sys
    from dataclasses import replace

    from minnow.cli._log import note
    from minnow.llm.image.prompt import with_images
    from minnow.options.generate import AnswerOptions, LanguageOptions
    from minnow.schema.errors import UsageError

    answer = with_schema(options.only(AnswerOptions))
    if options.raw:
        raise UsageError("a chat needs the chat template", hint="`mnnconvert llm run --raw` continues a text")
    llm = loaded(folder, options.only(LanguageOptions))
    if not llm.has_template:
        hint = "`mnnconvert llm run` continues a text"
        raise UsageError("the model has no chat template", where=folder, hint=hint)
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    if on_terminal:
        note(_HELP)
        _edit_lines()
    images, answer = answer.images, replace(answer, images=())  # of the first message
    history: list[dict[str, Any]] = []
    while (line := _line("> " if on_terminal else "")) is not None:
        if line == "/exit":
            return
        if line == "/reset":
            history = []
        elif line.strip():
            message: dict[str, Any] = {"role": "user", "content": line}
            history += with_images([message], images) if images and not history else [message]
            with _begun(llm, options.system, history, answer) as generation:
                for piece in generation:
                    write(piece)
            click.echo()
            history.append({"role": "assistant", "content": generation.result.text})


def _begun(llm: LLM, system: str, history: list[dict[str, Any]], options: AnswerOptions) -> Generation:
    """Begins an answer. Of a history that is too long, the first question and answer go."""
    from minnow.cli._log import note
    from minnow.schema.errors import UsageError

    while True:
        try:
            return llm.generate(messages(system, *history), **vars(options))
        except UsageError as e:
            if "too long" not in e.message or len(history) < 3:
                raise
            note("the context is full: the oldest messages are forgotten")
            del history[:2]


def _line(prompt: str) -> str | None:
    """The next line of standard input; None at its end."""
    from minnow.schema.errors import UsageError

    try:
        return input(prompt)
    except EOFError:
        if prompt:
            click.echo()
        return None
    except UnicodeDecodeError as e:
        raise UsageError("standard input is no UTF-8", why=str(e)) from None


def _edit_lines() -> None:
    """Lets lines be edited, where Python has readline."""
    try:
        import readline  # noqa: F401
    except ImportError:
        pass
