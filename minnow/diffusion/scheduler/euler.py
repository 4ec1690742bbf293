"""Euler's method for the equation of the image without noise."""

from __future__ import annotations

import numpy as np

from minnow.diffusion.scheduler.noise import Noise
from minnow.diffusion.scheduler.scheduler import Array, Scheduler

_RHO = 7.0


class Euler(Scheduler):
    """Karras and others 2022, algorithm 2 without new noise.

    Attributes:
        sigmas: f32 [steps + 1], the standard deviation of the noise before each step, and at the end 0.
    """

    def __init__(self, noise: Noise, steps: int) -> None:
        super().__init__(noise, steps)
        if noise["rescale_betas_zero_snr"]:
            self.kept[-1] = 2**-24  # not 0: the noise is finite
        trained = np.sqrt((1 - self.kept) / self.kept)
        places = np.arange(len(trained))
        sigmas = np.interp(self.times, places, trained)
        if noise["use_karras_sigmas"]:
            ends = np.array([sigmas[0], sigmas[-1]]) ** (1 / _RHO)
            sigmas = (ends[0] + np.linspace(0, 1, steps) * (ends[1] - ends[0])) ** _RHO
            self.times = np.interp(np.log(sigmas), np.log(trained), places)
        self.times = self.times.astype(np.float32)
        self.sigmas = np.append(sigmas, 0).astype(np.float32)
        most = self.sigmas.max()
        self.start = float(most if noise["timestep_spacing"] != "leading" else np.sqrt(most**2 + 1))

    def scaled(self, x: Array, step: int) -> Array:
        scaled: Array = x / np.sqrt(self.sigmas[step] ** 2 + 1)
        return scaled

    def step(self, seen: Array, step: int, x: Array) -> Array:
        sigma = self.sigmas[step]
        if self.noise["prediction_type"] == "epsilon":
            slope = seen
        elif self.noise["prediction_type"] == "sample":
            slope = (x - seen) / sigma
        else:
            image = seen * (-sigma / np.sqrt(sigma**2 + 1)) + x / (sigma**2 + 1)
            slope = (x - image) / sigma
        after: Array = x + slope * (self.sigmas[step + 1] - sigma)
        return after


SCHEDULER = Euler
