"""How much noise images had in training, as the settings of a scheduler of diffusers say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.errors import FormatError, UnsupportedError

Array = np.ndarray[Any, Any]

KINDS = {"DDIMScheduler": "ddim", "EulerDiscreteScheduler": "euler", "PNDMScheduler": "pndm"}
"""Classes of diffusers, and what they are called here."""
_ALL = {
    "num_train_timesteps": 1000,
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "prediction_type": "epsilon",
    "timestep_spacing": "leading",
    "steps_offset": 0,
    "rescale_betas_zero_snr": False,
}
_OWN: dict[str, dict[str, Any]] = {
    "ddim": {"set_alpha_to_one": True, "clip_sample": True, "clip_sample_range": 1.0},
    "euler": {"timestep_spacing": "linspace", "use_karras_sigmas": False},
    "pndm": {"set_alpha_to_one": False, "skip_prk_steps": False},
}
"""What settings are where the file does not say it: of all kinds, and of one."""
_WORDS: dict[str, Sequence[str]] = {
    "beta_schedule": ("linear", "scaled_linear", "squaredcos_cap_v2"),
    "prediction_type": ("epsilon", "sample", "v_prediction"),
    "timestep_spacing": ("leading", "linspace", "trailing"),
}
_FIXED: dict[str, Sequence[Any]] = {
    "trained_betas": (),
    "thresholding": (False,),
    "use_exponential_sigmas": (False,),
    "use_beta_sigmas": (False,),
    "sigma_min": (),
    "sigma_max": (),
    "interpolation_type": ("linear",),
    "timestep_type": ("discrete",),
    "final_sigmas_type": ("zero",),
}
"""Settings that have to be as they mostly are."""
_RANGES = {"num_train_timesteps": (1, 100_000), "steps_offset": (0, 1000)}
_MOST = 1e3


@dataclass(frozen=True)
class Noise:
    """The settings of a scheduler.

    Attributes:
        kind: "ddim", "euler" or "pndm".
        table: them, by diffusers' names; none is missing that the kind has.
    """

    kind: str
    table: Mapping[str, Any]

    @classmethod
    def of(cls, table: Mapping[str, Any], kind: str | None = None, where: str = "") -> Noise:
        """The settings in a file.

        Args:
            table: what a `scheduler_config.json` has; what it does not say is as the kind has it.
            kind: another kind than the one that it names.

        Raises:
            FormatError: a setting is wrong. UnsupportedError: it has one that is not supported, or is of another kind.
        """
        named = str(table.get("_class_name"))
        if kind is None and named not in KINDS:
            hint = f"supported are {', '.join(KINDS)}"
            raise UnsupportedError(f"schedulers of the kind '{named[:60]}' are not supported", where=where, hint=hint)
        kind = kind or KINDS[named]
        found = {**_ALL, **_OWN[kind]}
        for name, default in found.items():
            value = table.get(name)
            found[name] = default if value is None else _checked(name, value, default, where)
        for name, known in _FIXED.items():
            value = table.get(name)
            if value is not None and value not in known:
                message = f"schedulers with '{name}' {str(value)[:40]!r} are not supported"
                raise UnsupportedError(message, where=where)
        if kind == "pndm" and not (found["skip_prk_steps"] and found["prediction_type"] != "sample"):
            why = "it begins with steps of the method of Runge and Kutta" if not found["skip_prk_steps"] else ""
            hint = "choose another one, such as ddim"
            raise UnsupportedError("this form of PNDM is not supported", where=where, why=why, hint=hint)
        if found["rescale_betas_zero_snr"] and kind != "euler" and found["prediction_type"] == "epsilon":
            why = "at the first step there is no image left that its noise could tell"
            raise UnsupportedError("predictions of noise with 'rescale_betas_zero_snr'", where=where, why=why)
        return cls(kind, found)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    @property
    def trained(self) -> int:
        """Steps of the training."""
        return int(self["num_train_timesteps"])

    def kept(self) -> Array:
        """How much of the image is left at each step of the training: f32, the product of 1 - beta so far."""
        left: Array = 1 - self._betas()
        if self["rescale_betas_zero_snr"]:
            root = np.sqrt(np.cumprod(left, dtype=np.float64))
            first, last = root[0], root[-1]
            bar = ((root - last) * (first / (first - last))) ** 2
            left = np.concatenate([bar[:1], bar[1:] / bar[:-1]])
        return np.cumprod(left, dtype=np.float64).astype(np.float32)

    def _betas(self) -> Array:
        first, last, count = self["beta_start"], self["beta_end"], self.trained
        found: Array
        if self["beta_schedule"] == "linear":
            found = np.linspace(first, last, count)
        elif self["beta_schedule"] == "scaled_linear":
            found = np.linspace(first**0.5, last**0.5, count) ** 2
        else:
            bar = np.cos((np.arange(count + 1) / count + 0.008) / 1.008 * np.pi / 2) ** 2
            found = np.minimum(1 - bar[1:] / bar[:-1], 0.999)
        return found.astype(np.float32)

    def times(self, steps: int) -> Array:
        """The steps of the training that `steps` steps stand for, the noisiest first: f64."""
        found: Array
        if self["timestep_spacing"] == "linspace":
            found = np.linspace(0, self.trained - 1, steps)[::-1]
            return found if self.kind == "euler" else found.round()
        if self["timestep_spacing"] == "leading":
            found = np.arange(steps, dtype=float)[::-1] * float(self.trained // steps) + self["steps_offset"]
            return found
        found = np.round(np.arange(self.trained, 0, -self.trained / steps))[:steps] - 1
        return found


def _checked(name: str, value: Any, default: Any, where: str) -> Any:
    """The value of a setting. Raises FormatError if it is none."""
    if name in _WORDS:
        if value in _WORDS[name]:
            return value
        hint = f"supported are {', '.join(_WORDS[name])}"
        raise UnsupportedError(
            f"schedulers with '{name}' {str(value)[:40]!r} are not supported", where=where, hint=hint
        )
    if isinstance(default, bool):
        fits = type(value) is bool
    elif isinstance(default, int):
        least, most = _RANGES[name]
        fits = type(value) is int and least <= value <= most
    else:
        fits = type(value) in (int, float) and 0 < value < (1 if name.startswith("beta") else _MOST)
    if not fits:
        raise FormatError(f"the setting '{name}' of the scheduler is {str(value)[:40]!r}", where=where)
    return value
