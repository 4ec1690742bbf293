"""mnnconvert diffusion"""

from __future__ import annotations

import click

from minnow.cli._group import ModuleGroup


class _Commands(ModuleGroup):
    package = "minnow.cli.diffusion"


@click.group(cls=_Commands)
def command() -> None:
    """Make pictures with a converted diffusion pipeline.

    That is a folder which `mnnconvert` has made of a pipeline of diffusers.
    """
