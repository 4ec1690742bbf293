"""mnnconvert diffusion run"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._log import step
from minnow.cli._option import Command, options
from minnow.cli._terminal import spinner

if TYPE_CHECKING:
    from collections.abc import Callable

    from minnow.options.diffusion import RunDiffusionCommand


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path())
@options("diffusion.RunDiffusionCommand")
def command(folder: str, options: RunDiffusionCommand) -> None:
    """Make a picture of a text.

    The same seed gives the same picture, whatever the number of threads.
    """
    from minnow.diffusion.description import Description

    Description.read(folder)  # what is missing is reported before slow imports

    import minnow.diffusion
    from minnow.cv import haveImageWriter
    from minnow.options.diffusion import PictureOptions, PipelineOptions
    from minnow.output import target_of
    from minnow.schema.errors import UsageError

    target_of(options.output)
    if not haveImageWriter(str(options.output)):
        raise UsageError("pictures cannot be written with this extension", where=str(options.output), hint="use .png")
    with step(f"load {folder}"):
        diffusion = minnow.diffusion.load(folder, **vars(options.only(PipelineOptions)))
    with spinner() as progress:
        asked = {**vars(options.only(PictureOptions)), "callback": _shown(progress)}
        picture = diffusion.generate(options.prompt, **asked)
    picture.save(options.output)
    height, width = picture.pixels.shape[:2]
    click.echo(f"{options.output}: {width} x {height} pixels")


def _shown(progress: Callable[[str], None] | None) -> Callable[[int, object], None] | None:
    """What shows the number of each step, where that can be seen."""
    return None if progress is None else lambda number, latents: progress(f"step {number + 1}")
