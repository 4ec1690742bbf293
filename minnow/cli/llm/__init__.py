"""mnnconvert llm"""

from __future__ import annotations

import click

from minnow.cli._group import ModuleGroup


class _Commands(ModuleGroup):
    package = "minnow.cli.llm"


@click.group(cls=_Commands)
def command() -> None:
    """Run, serve and measure a converted language model.

    That is a folder which `mnnconvert` has made of a checkpoint.
    """
