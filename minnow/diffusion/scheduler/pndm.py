"""PNDM in the form that latent diffusion uses: the noise of a step is extrapolated from that of the steps before."""

from __future__ import annotations

import numpy as np

from minnow.diffusion.scheduler.noise import Noise
from minnow.diffusion.scheduler.scheduler import Array, Scheduler

_WEIGHTS = ((1.0,), (-1 / 2, 3 / 2), (5 / 12, -16 / 12, 23 / 12), (-9 / 24, 37 / 24, -59 / 24, 55 / 24))
"""Adams and Bashforth's, of the last one to four steps, the oldest first."""


class Pndm(Scheduler):
    """Liu and others 2022, formulas 9 and 12. The first step is taken twice: the second time with the mean of both."""

    def __init__(self, noise: Noise, steps: int) -> None:
        super().__init__(noise, steps)
        # The second step of all is the end of the first, from where its slope is looked at again.
        self.times = np.concatenate([self.times[:1], self.times[1:2], self.times[1:]])
        self._seen: list[Array] = []
        self._first = np.zeros(0, np.float32)

    def step(self, seen: Array, step: int, x: Array) -> Array:
        stride = self.noise.trained // self.steps
        time = int(self.times[step])
        if step == 1:
            mean = (seen + self._seen[-1]) / 2
            return self._moved(self._first, time + stride, time, mean)
        self._first = x
        self._seen = [*self._seen[-3:], seen]
        weights = _WEIGHTS[len(self._seen) - 1]
        total = sum(np.float32(w) * y for w, y in zip(weights, self._seen, strict=True))
        return self._moved(x, time, time - stride, np.asarray(total))

    def _moved(self, x: Array, time: int, after: int, seen: Array) -> Array:
        """The image as it is at another time, by the noise that is in it."""
        kept, later = self.kept_at(time), self.kept_at(after)
        rest = 1 - kept
        if self.noise["prediction_type"] == "v_prediction":
            seen = np.sqrt(kept) * seen + np.sqrt(rest) * x
        share = kept * np.sqrt(1 - later) + np.sqrt(kept * rest * later)
        moved: Array = np.sqrt(later / kept) * x - (later - kept) * seen / share
        return moved


SCHEDULER = Pndm
