"""Encoders of images, compared with transformers on random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_families import encoder as text_encoder
from language_families import quiet, saved, tower

from minnow.converter.llm.checkpoint import Checkpoint, Settings, open_checkpoint
from minnow.converter.llm.vision import encoder
from minnow.runtime.session import load
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Model
from minnow.schema.mnn import encode
from minnow.schema.registry.interpreter import evaluate

CLOSE = 1e-4
"""The most that hidden states may differ; they are about 5."""


def _pixels(model: torch.nn.Module, count: int) -> np.ndarray:
    config: Any = model.config
    shape = (count, config.num_channels, config.image_size, config.image_size)
    return np.random.default_rng(count).standard_normal(shape).astype(np.float32)


def _wanted(model: torch.nn.Module, pixels: np.ndarray, layers: Sequence[int], every_row: bool) -> np.ndarray:
    states = quiet(lambda: model(torch.tensor(pixels), output_hidden_states=True)).hidden_states
    return np.concatenate([states[n].numpy()[:, 0 if every_row else 1 :] for n in layers], -1)


def _reference(model: Model, pixels: np.ndarray) -> np.ndarray:
    return np.asarray(evaluate(model.graph, [pixels])[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["CLIPVision", "SiglipVision"])
@pytest.mark.parametrize("layers", [(-2,), (-1,), (0,), (3,), (1, -2, 0)])
@pytest.mark.parametrize("every_row", [True, False])
def test_hidden_states_are_those_of_transformers(
    kind: str, layers: tuple[int, ...], every_row: bool, tmp_path: Path
) -> None:
    """The image has pixels that belong to no patch; `layers` are numbered as transformers does."""
    model = tower(kind)
    made = encoder(open_checkpoint(saved(model, tmp_path)), layers, every_row)
    pixels = _pixels(model, 2)
    want = _wanted(model, pixels, layers, every_row)
    np.testing.assert_allclose(_reference(made, pixels), want, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("kind", ["CLIPVision", "SiglipVision"])
def test_the_engine_gives_the_same(kind: str, tmp_path: Path) -> None:
    model = tower(kind)
    made = encoder(open_checkpoint(saved(model, tmp_path)), (-2,))
    session = load(encode(made), threads=1)
    for count in (1, 3, 2):
        pixels = _pixels(model, count)
        got = session.run({"pixel_values": pixels})["hidden_states"]
        np.testing.assert_allclose(got, _wanted(model, pixels, (-2,), True), atol=CLOSE, rtol=0)


def test_names_of_old_checkpoints(tmp_path: Path) -> None:
    """In which all tensors are within `vision_model`."""
    model = tower("CLIPVision")
    found = open_checkpoint(saved(model, tmp_path))
    renamed = {f"vision_model.{n}": blob for n, blob in found.tensors.items()}
    pixels = _pixels(model, 1)
    got = _reference(encoder(Checkpoint(found.path, found.settings, renamed)), pixels)
    np.testing.assert_allclose(got, _wanted(model, pixels, (-1,), True), atol=CLOSE, rtol=0)


def test_what_is_refused(tmp_path: Path) -> None:
    found = open_checkpoint(saved(tower("CLIPVision"), tmp_path / "a"))

    def changed(**settings: Any) -> Checkpoint:
        return Checkpoint(found.path, Settings({**found.settings.table, **settings}, "config.json"), found.tensors)

    for layers in ((4,), (-5,), ()):
        with pytest.raises(ModelError, match="has 3 layers"):
            encoder(found, layers)
    with pytest.raises(ModelError, match="patches of 7 pixels are larger"):
        encoder(changed(image_size=6))
    with pytest.raises(ModelError, match=r"position_embedding\.weight' has the shape"):
        encoder(changed(image_size=37))
    with pytest.raises(ModelError, match="'patch_size' is '0'"):
        encoder(changed(patch_size=0))
    with pytest.raises(UnsupportedError, match="activation 'mish'"):
        encoder(changed(hidden_act="mish"))
    with pytest.raises(UnsupportedError, match="does not use"):
        encoder(Checkpoint(found.path, found.settings, {**found.tensors, "extra": found.tensors["pre_layrnorm.bias"]}))
    with pytest.raises(UnsupportedError, match="images of the kind 'clip_text_model'"):
        encoder(open_checkpoint(saved(text_encoder("CLIPText"), tmp_path / "b")))
