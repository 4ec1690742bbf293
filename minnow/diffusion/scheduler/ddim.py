"""DDIM without new noise: each step guesses the image, and adds less noise to it than there was."""

from __future__ import annotations

import numpy as np

from minnow.diffusion.scheduler.scheduler import Array, Scheduler


class Ddim(Scheduler):
    """Song, Meng, Ermon 2020, formula 12 with sigma = 0."""

    def step(self, seen: Array, step: int, x: Array) -> Array:
        time = int(self.times[step])
        kept = self.kept_at(time)
        kept_after = self.kept_at(time - self.noise.trained // self.steps)
        root, rest = np.sqrt(kept), np.sqrt(1 - kept)
        if self.noise["prediction_type"] == "epsilon":
            image, noise = (x - rest * seen) / root, seen
        elif self.noise["prediction_type"] == "sample":
            image, noise = seen, (x - root * seen) / rest
        else:
            image, noise = root * x - rest * seen, root * seen + rest * x
        if self.noise["clip_sample"]:
            most = np.float32(self.noise["clip_sample_range"])
            image = np.clip(image, -most, most)
        after: Array = np.sqrt(kept_after) * image + np.sqrt(1 - kept_after) * noise
        return after


SCHEDULER = Ddim
