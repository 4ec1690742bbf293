"""mnnconvert llm serve"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from minnow.cli._option import Command, options
from minnow.cli.llm._folder import FOLDER, loaded

if TYPE_CHECKING:
    from minnow.options.generate import ServeCommand


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=FOLDER)
@options("generate.ServeCommand")
def command(folder: str, options: ServeCommand) -> None:
    """Serve a language model to OpenAI's clients, until Ctrl-C.

    The paths are /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/rerank, /v1/models, /health and /metrics.
    It needs the extra minnow[serve].
    """
    from dataclasses import replace

    from minnow.cli._log import note
    from minnow.llm.server import check_packages, serve
    from minnow.options.generate import LanguageOptions, ServerOptions

    check_packages()
    server = replace(options.only(ServerOptions), api_key=options.api_key or os.environ.get("MINNOW_API_KEY", ""))
    llm = loaded(folder, options.only(LanguageOptions))
    if options.host not in ("127.0.0.1", "localhost", "::1") and not server.api_key:
        note("every program that reaches this machine may use the model; --api-key or MINNOW_API_KEY sets a key")

    def started(url: str) -> None:
        click.echo(f"listening at {url}")

    serve(llm, server, started)
