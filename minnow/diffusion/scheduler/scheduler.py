"""What schedulers have in common, and how one is found by its name."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from minnow.diffusion.scheduler.noise import KINDS, Noise
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]

NAMES = tuple(KINDS.values())


class Scheduler(ABC):
    """Removes the noise of one latent image.

    Args:
        noise: how much there is at which step.
        steps: how many to take.

    Attributes:
        times: what each step stands for, as the UNet is told; a scheduler may take more steps than it was asked for.
        start: standard deviation of the noise to begin with.
    """

    start = 1.0

    def __init__(self, noise: Noise, steps: int) -> None:
        if steps > noise.trained:
            raise UsageError(f"{steps} steps are more than the {noise.trained} of the training")
        self.noise, self.steps = noise, steps
        self.kept = noise.kept()
        self.times = noise.times(steps)

    def scaled(self, x: Array, step: int) -> Array:
        """What the UNet is shown of a latent image at a step."""
        return x

    @abstractmethod
    def step(self, seen: Array, step: int, x: Array) -> Array:
        """The latent image after a step.

        Args:
            seen: what the UNet has made of it. step: number of the step. x: the image before it.
        """

    def kept_at(self, time: int) -> Any:
        """How much of the image is left, f32, at a step of the training; before the first, what counts as its end."""
        if time >= 0:
            return np.float32(self.kept[min(time, len(self.kept) - 1)])
        return np.float32(1) if self.noise["set_alpha_to_one"] else np.float32(self.kept[0])


def make(noise: Noise, steps: int) -> Scheduler:
    """A scheduler of the kind that the settings are of. Raises UsageError for too many steps."""
    module = importlib.import_module(f"minnow.diffusion.scheduler.{noise.kind}")
    made: Scheduler = module.SCHEDULER(noise, steps)
    return made
