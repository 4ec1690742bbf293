"""mnnconvert llm"""

from __future__ import annotations

import click

from minnow.cli._group import ModuleGroup


class _Commands(ModuleGroup):
    package = "minnow.cli.llm"


@click.group(cls=_Commands)
def command() -> None:
    """Use a language model: a folder that `mnnconvert` has made of a checkpoint."""
