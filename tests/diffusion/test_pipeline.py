"""Pipelines step by step, against diffusers with the same weights, and the same noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_pipelines import KINDS, LENGTH, SCHEDULERS, old_tokenizer, pipeline, saved, tokenizer, vocabulary

import minnow.diffusion
from minnow import convert
from minnow.diffusion.pipeline import Diffusion
from minnow.llm.tokenizer import Tokenizer

CLOSE = 1e-3
PROMPT = "The CAT sat, 12 mäuse & the light!"


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Diffusion]:
    """A pipeline of diffusers, and what was made of its files."""
    folder = tmp_path_factory.mktemp("pipeline")
    theirs = pipeline(request.param)
    report = convert(saved(theirs, folder / "source"), output=folder / "made")
    assert any("verified: results differ by up to" in text for text in report.notices)
    return theirs, minnow.diffusion.load(folder / "made", threads=1)


def _noise(seed: int, channels: int = 4, height: int = 8, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, channels, height, width)).astype(np.float32)


def test_each_model_is_that_of_diffusers(both: tuple[Any, Diffusion]) -> None:
    """Also images that are not square, and several at a time."""
    theirs, ours = both
    x = np.concatenate([_noise(1, width=12), _noise(2, width=12)])
    ids = tokenizer()([PROMPT, ""], padding="max_length", max_length=LENGTH, truncation=True).input_ids
    assert [ours.tokens(PROMPT), ours.tokens("")] == ids
    with torch.no_grad():
        states = theirs.text_encoder(torch.tensor(ids)).last_hidden_state
        noise = theirs.unet(torch.tensor(x), 481, states).sample
        image = theirs.vae.decode(torch.tensor(x) / theirs.vae.config.scaling_factor).sample
    np.testing.assert_allclose(ours.encode_texts([PROMPT, ""]), states, atol=1e-4, rtol=0)
    np.testing.assert_allclose(ours.denoise(x, 481, states.numpy()), noise, atol=1e-4, rtol=0)
    np.testing.assert_allclose(ours.decode(x), image, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_each_step_is_that_of_diffusers(both: tuple[Any, Diffusion], name: str) -> None:
    theirs, ours = both
    theirs.scheduler = SCHEDULERS[name]()
    x, steps = _noise(3), 5
    want, got = [], []
    options = {"negative_prompt": "the", "guidance_scale": 5.0, "height": ours.description.height}
    picture = theirs(
        PROMPT, num_inference_steps=steps, latents=torch.tensor(x), output_type="np", width=ours.description.width,
        callback_on_step_end=lambda pipe, i, t, values: want.append(values["latents"][0].numpy()) or values, **options,
    ).images[0]  # fmt: skip
    own = Diffusion(_with_scheduler(ours, theirs.scheduler), ours._sessions, ours.tokenizer)
    made = own.generate(PROMPT, negative_prompt="the", guidance=5.0, steps=steps, latents=x[0],
                        callback=lambda i, latents: got.append(latents))  # fmt: skip
    assert len(got) == len(want) == steps + (name == "pndm")
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other, atol=CLOSE, rtol=0)
    shades = (picture * 255).round().astype(int)
    assert shades.std() > 5
    assert np.abs(made.pixels.astype(int) - shades).max() <= 1


def _with_scheduler(ours: Diffusion, scheduler: Any) -> Any:
    from dataclasses import replace

    table = {"_class_name": type(scheduler).__name__, **scheduler.config}
    return replace(ours.description, scheduler=table)


def test_another_scheduler_takes_the_settings_of_the_first(both: tuple[Any, Diffusion]) -> None:
    """As diffusers' `from_config`: what the file does not say is as the new kind has it."""
    from diffusers import DDIMScheduler, EulerDiscreteScheduler

    theirs, ours = both
    theirs.scheduler = EulerDiscreteScheduler.from_config(DDIMScheduler(clip_sample=False, steps_offset=1).config)
    x = _noise(4)
    want: list[Any] = []
    theirs(
        PROMPT, num_inference_steps=4, latents=torch.tensor(x), output_type="latent", guidance_scale=1.0,
        height=ours.description.height, width=ours.description.width,
        callback_on_step_end=lambda pipe, i, t, values: want.append(values["latents"][0].numpy()) or values,
    )  # fmt: skip
    from dataclasses import replace

    table = {"_class_name": "DDIMScheduler", "clip_sample": False, "steps_offset": 1}
    own = Diffusion(replace(ours.description, scheduler=table), ours._sessions, ours.tokenizer)
    got: list[Any] = []
    own.generate(PROMPT, scheduler="euler", steps=4, guidance=1.0, latents=x[0], callback=lambda i, y: got.append(y))
    np.testing.assert_allclose(got, want, atol=CLOSE, rtol=0)


def test_predictions_of_the_velocity(tmp_path: Path) -> None:
    theirs = pipeline("first", "v_prediction")
    convert(saved(theirs, tmp_path / "source"), output=tmp_path / "made", verify=False)
    ours = minnow.diffusion.load(tmp_path / "made", threads=1)
    x = _noise(5)
    want = theirs(
        PROMPT, num_inference_steps=5, latents=torch.tensor(x), output_type="latent", guidance_scale=3.0,
        height=ours.description.height, width=ours.description.width,
    ).images  # fmt: skip
    got: list[Any] = []
    ours.generate(PROMPT, steps=5, guidance=3.0, latents=x[0], callback=lambda i, y: got.append(y))
    np.testing.assert_allclose(got[-1], want[0], atol=CLOSE, rtol=0)


def test_weights_of_16_bits_and_old_names(tmp_path: Path) -> None:
    """As checkpoints of the first pipelines: a `vocab.json`, attention of other names, files of float16."""
    from safetensors.numpy import load_file, save_file

    source = saved(pipeline("first"), tmp_path / "source")
    for file in (source / "tokenizer").iterdir():
        file.unlink()
    old_tokenizer(source / "tokenizer")
    decoder = source / "vae" / "diffusion_pytorch_model.safetensors"
    names = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    tensors = {}
    for name, array in load_file(decoder).items():
        for new, old in names.items():
            name = name.replace(f"attentions.0.{new}.", f"attentions.0.{old}.")
        tensors[name] = array.astype(np.float16)
    decoder.unlink()
    save_file(tensors, source / "vae" / "diffusion_pytorch_model.fp16.safetensors")
    convert(source, output=tmp_path / "made")
    ours = minnow.diffusion.load(tmp_path / "made", threads=1)
    ids = tokenizer()(PROMPT, padding="max_length", max_length=LENGTH, truncation=True).input_ids
    assert ours.tokens(PROMPT) == ids
    with torch.no_grad():
        image = pipeline("first").vae.decode(torch.tensor(_noise(6)) / 0.18215).sample
    got = ours.decode(_noise(6))
    assert np.abs(got - image.numpy()).max() < 0.02 * image.abs().max()
    assert not np.allclose(got, image, atol=1e-5)


@pytest.mark.parametrize("engine", ["minnow", "tokenizers"])
def test_texts_become_the_tokens_of_transformers(engine: Any, tmp_path: Path) -> None:
    from minnow.converter.llm.tokenizer.folder import from_folder

    old_tokenizer(tmp_path)
    ours, theirs = Tokenizer.from_json(from_folder(tmp_path), engine=engine), tokenizer()
    dice = np.random.default_rng(0)
    characters = [*"the cat  li'ts 12\n\t!?.,<|>", "ä", "É", "中", "é", "🦊", "\u3000", "ǅ", "İ", *vocabulary()]
    for _ in range(200):
        text = "".join(characters[i] for i in dice.integers(0, len(characters), dice.integers(0, 30)))
        assert ours.encode(text) == theirs(text).input_ids, repr(text)


def test_a_seed_is_a_picture(both: tuple[Any, Diffusion]) -> None:
    _, ours = both
    first, again, other = (ours.generate("cat", steps=2, seed=seed).pixels for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    own = ours.description
    assert first.shape == (own.height, own.width, 3)
    wide = ours.generate("cat", steps=1, height=2 * own.step, width=3 * own.step)
    assert wide.pixels.shape == (2 * own.step, 3 * own.step, 3)


def test_long_texts_keep_their_end(both: tuple[Any, Diffusion]) -> None:
    _, ours = both
    text = "the cat " * 30
    ids = tokenizer()(text, padding="max_length", max_length=LENGTH, truncation=True).input_ids
    assert ours.tokens(text) == ids
    assert len(ids) == LENGTH
