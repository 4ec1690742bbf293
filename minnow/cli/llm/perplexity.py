"""mnnconvert llm perplexity"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, Command, emit, options
from minnow.cli._terminal import spinner
from minnow.cli.llm._folder import FOLDER, loaded

if TYPE_CHECKING:
    from minnow.options.generate import PerplexityCommand


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("file", type=click.Path())
@options("generate.PerplexityCommand")
@FORMAT
def command(folder: str, file: str, options: PerplexityCommand, format_: str) -> None:
    """Measure how well a language model predicts a text.

    The perplexity is exp of the mean of -log p of the tokens.

    The text is cut into windows; a window begins with the token that begins texts, if the model has one. Each token is
    predicted once, by the first window that has it, from the tokens before it in that window; the first token of the
    first window is not predicted, and without overlap that of no window.
    """
    from minnow.llm.perplexity import perplexity, text_of
    from minnow.options.generate import LanguageOptions

    text = text_of(file)
    llm = loaded(folder, options.only(LanguageOptions))
    with spinner() as progress:
        found = perplexity(llm, text, window=options.window, stride=options.stride, limit=options.limit,
                           progress=progress)  # fmt: skip
    emit(found, format_, lambda: (
        f"perplexity {found.perplexity:.4f} ± {found.error:.4f}: {found.predicted:,} of {found.tokens:,} tokens "
        f"predicted in {found.windows:,} windows, {found.seconds:.1f} s"
    ))  # fmt: skip
