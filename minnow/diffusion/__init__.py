"""Latent diffusion: from a folder that `mnnconvert` has made of a pipeline of diffusers to pictures.

diffusion = minnow.diffusion.load("tiny-sd", threads=2)
picture = diffusion.generate("a lighthouse at night", steps=30, seed=1)
picture.save("lighthouse.png")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from minnow.options.diffusion import PipelineOptions
from minnow.options.signature import takes

if TYPE_CHECKING:
    from minnow.diffusion.pipeline import Diffusion


@takes(PipelineOptions)
def load(folder: str | os.PathLike[str], options: PipelineOptions) -> Diffusion:
    """Loads a diffusion pipeline.

    Args:
        folder: what `mnnconvert FOLDER -o DIR` has written of a folder of diffusers.
        options:

    Raises:
        FormatError: a file is missing, or damaged. UsageError: an option is wrong.
    """
    from minnow.diffusion.pipeline import Diffusion

    return Diffusion.load(folder, options)
