"""Options of diffusion pipelines: loading them, making pictures, and the commands of `mnnconvert diffusion`."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from minnow.options.option import Options, option
from minnow.options.read import Path
from minnow.options.run import ComputeOptions

SchedulerName = Literal["ddim", "euler", "pndm"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PipelineOptions(ComputeOptions):
    """Options of loading a diffusion pipeline: the arguments of `minnow.diffusion.load`."""

    SECTION: ClassVar[str] = "Running the models"

    device: str = option("cpu", "Where the models run: cpu, or a device such as cuda.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PictureOptions(Options):
    """Options of a picture: the arguments of `Diffusion.generate`."""

    SECTION: ClassVar[str] = "Picture"

    negative_prompt: str = option("", "What the picture shall not show.", metavar="TEXT")
    steps: int = option(50, "In how many steps the noise is removed.", least=1, most=1000)
    guidance: float = option(
        7.5, "How much the prompt counts; up to 1 the negative prompt is not looked at.", least=0, most=1000
    )
    seed: int = option(0, "Seed of the noise that the picture is made of.", least=0)
    width: int | None = option(None, "Pixels; by default those of the pictures the model learned from.", least=8)
    height: int | None = option(None, "As --width.", python="As `width`.", least=8)
    scheduler: SchedulerName | None = option(None, "How a step removes noise; by default as the pipeline says.")
    latents: Any = option(
        None,
        "The noise itself, float32 [channels, height, width] of the latent image, with a standard deviation of 1.",
        only_python=True,
    )
    callback: Any = option(
        None,
        "Called after each step with its number, from 0 on, and the latent image as it is then.",
        only_python=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunDiffusionCommand(PipelineOptions, PictureOptions):
    """The flags of `mnnconvert diffusion run`."""

    SECTION: ClassVar[str] = "Picture"

    prompt: str = option("", "What the picture shall show.", flags=("-p", "--prompt"), metavar="TEXT")
    output: Path = option(
        "picture.png",
        "The file to write: .png, and with Pillow (`minnow[cv]`) .jpg, .webp or .bmp.",
        flags=("-o", "--output"),
        metavar="FILE",
        names_files=True,
    )
