"""Schedulers against those of diffusers, with random numbers in place of a model."""

from __future__ import annotations

import itertools
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from minnow.diffusion.scheduler import Noise, make
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError, UsageError

_CASES = [
    (name, dict(zip(("beta_schedule", "prediction_type", "timestep_spacing"), row, strict=True)), steps, more)
    for name, steps, more in [
        ("DDIMScheduler", 7, {"clip_sample": False, "steps_offset": 1}),
        ("DDIMScheduler", 50, {"clip_sample": True, "set_alpha_to_one": False}),
        ("DDIMScheduler", 3, {"clip_sample_range": 2.0, "rescale_betas_zero_snr": True}),
        ("EulerDiscreteScheduler", 7, {}),
        ("EulerDiscreteScheduler", 20, {"use_karras_sigmas": True, "steps_offset": 1}),
        ("EulerDiscreteScheduler", 1, {"rescale_betas_zero_snr": True, "num_train_timesteps": 500}),
        ("PNDMScheduler", 7, {"skip_prk_steps": True, "steps_offset": 1}),
        ("PNDMScheduler", 30, {"skip_prk_steps": True, "set_alpha_to_one": True}),
        ("PNDMScheduler", 2, {"skip_prk_steps": True}),
    ]
    for row in itertools.product(
        ("linear", "scaled_linear", "squaredcos_cap_v2"),
        ("epsilon", "v_prediction") if name == "PNDMScheduler" else ("epsilon", "v_prediction", "sample"),
        ("leading", "linspace", "trailing"),
    )
    if not ("rescale_betas_zero_snr" in more and name == "DDIMScheduler" and row[1] == "epsilon")
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "table", "steps", "more"), _CASES)
def test_steps_are_those_of_diffusers(name: str, table: dict[str, Any], steps: int, more: dict[str, Any]) -> None:
    theirs = getattr(diffusers, name)(**table, **more)
    ours = make(Noise.of({"_class_name": name, **table, **more}), steps)
    theirs.set_timesteps(steps)
    np.testing.assert_allclose(ours.times, theirs.timesteps.numpy(), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(ours.start, float(theirs.init_noise_sigma), rtol=1e-4, atol=1e-5)
    dice = np.random.default_rng(0)
    x = dice.standard_normal((1, 4, 5, 3)).astype(np.float32) * np.float32(ours.start)
    other = torch.tensor(x)
    for i, time in enumerate(theirs.timesteps):
        shown = theirs.scale_model_input(other, time)
        np.testing.assert_allclose(ours.scaled(x, i), shown, rtol=2e-4, atol=1e-4)
        seen = dice.standard_normal(x.shape).astype(np.float32)
        x = np.asarray(ours.step(seen, i, x))
        other = theirs.step(torch.tensor(seen), time, other).prev_sample
        assert x.dtype == np.float32
        scale = max(float(other.abs().max()), 1.0)
        np.testing.assert_allclose(x / scale, other / scale, rtol=2e-4, atol=1e-4)


_DDIM = {"_class_name": "DDIMScheduler"}


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({}, UnsupportedError),
        ({"_class_name": "LCMScheduler"}, UnsupportedError),
        ({"_class_name": "PNDMScheduler"}, UnsupportedError),
        ({**_DDIM, "thresholding": True}, UnsupportedError),
        ({**_DDIM, "rescale_betas_zero_snr": True}, UnsupportedError),
        ({**_DDIM, "trained_betas": [0.1]}, UnsupportedError),
        ({**_DDIM, "beta_schedule": "sigmoid"}, UnsupportedError),
        ({**_DDIM, "beta_schedule": ["linear"]}, UnsupportedError),
        ({**_DDIM, "num_train_timesteps": 10**9}, FormatError),
        ({**_DDIM, "num_train_timesteps": 0}, FormatError),
        ({**_DDIM, "num_train_timesteps": True}, FormatError),
        ({**_DDIM, "beta_start": "0.1"}, FormatError),
        ({**_DDIM, "beta_end": 1.5}, FormatError),
        ({**_DDIM, "beta_end": float("nan")}, FormatError),
        ({**_DDIM, "clip_sample": 1}, FormatError),
        ({**_DDIM, "steps_offset": -1}, FormatError),
    ],
)
def test_settings_that_are_wrong_are_refused(table: dict[str, Any], error: type[MinnowError]) -> None:
    with pytest.raises(error):
        Noise.of(table)


def test_more_steps_than_the_training_had() -> None:
    noise = Noise.of({**_DDIM, "num_train_timesteps": 10})
    assert len(make(noise, 10).times) == 10
    with pytest.raises(UsageError, match="11 steps are more than the 10"):
        make(noise, 11)
