"""Schedulers: how noise is removed from a latent image step by step."""

from minnow.diffusion.scheduler.noise import Noise
from minnow.diffusion.scheduler.scheduler import NAMES, Scheduler, make

__all__ = ["NAMES", "Noise", "Scheduler", "make"]
