"""Folders of models that see: what they leave out, and the names that their tensors have had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from language_families import saved_seeing, seeing
from safetensors.numpy import load_file, save_file

from minnow.converter.llm.build import build
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.converter.llm.llava import DEFAULTS, image_graph
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Model
from minnow.schema.registry.interpreter import evaluate


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_is_left_out_is_as_transformers_has_it(kind: str) -> None:
    own = transformers.AutoConfig.for_model(kind)
    assert {name: getattr(own, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_seeing(seeing("llama", "CLIPVision"), tmp_path_factory.mktemp("llava") / "source")


def _built(folder: Path) -> tuple[Model, Model]:
    checkpoint = open_checkpoint(folder)
    return build(checkpoint), image_graph(checkpoint)


def _new_name(name: str) -> str:
    """As transformers 4.52 and newer call the parts in memory."""
    if name.startswith("language_model.lm_head."):
        return name.removeprefix("language_model.")
    return "model." + name.replace("language_model.model.", "language_model.")


def _copy(folder: Path, target: Path, **changes: Any) -> Path:
    """The folder with other settings; None: without one."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config = {k: v for k, v in {**config, **changes}.items() if v is not None}
    (target / "config.json").write_text(json.dumps(config))
    return target


def test_old_and_new_names_of_tensors(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    old = {n.startswith("language_model.model.") for n in tensors}
    assert True in old, "transformers writes the old names"
    renamed = _copy(folder, tmp_path / "renamed")
    save_file({_new_name(name): array for name, array in tensors.items()}, renamed / "model.safetensors")
    for one, other in zip(_built(folder), _built(renamed), strict=True):
        assert len(list(one.graph.nodes())) == len(list(other.graph.nodes()))
        for a, b in zip(one.graph.constants(), other.graph.constants(), strict=True):
            assert a.data is not None
            assert b.data is not None
            np.testing.assert_array_equal(a.data.numpy(), b.data.numpy())


def test_a_tower_without_types(folder: Path, tmp_path: Path) -> None:
    """`model_type` of the parts may be left out: Llama and CLIP."""
    config = json.loads((folder / "config.json").read_text())
    parts = {
        part: {k: v for k, v in config[part].items() if k != "model_type"} for part in ("text_config", "vision_config")
    }
    found = _built(_copy(folder, tmp_path / "copy", **parts))[1]
    pixels = np.random.default_rng(0).standard_normal((1, 3, *[config["vision_config"]["image_size"]] * 2))
    want, got = (evaluate(m.graph, [pixels.astype(np.float32)])[0] for m in (_built(folder)[1], found))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"vision_feature_select_strategy": "cls"}, UnsupportedError, "vision_feature_select_strategy"),
    ({"vision_feature_layer": 9}, ModelError, "layers, not"),
    ({"vision_feature_layer": "last"}, ModelError, "vision_feature_layer"),
    ({"vision_feature_layer": []}, ModelError, "vision_feature_layer"),
    ({"projector_hidden_act": "swoosh"}, UnsupportedError, "swoosh"),
    ({"vision_config": {"model_type": "pixtral"}}, UnsupportedError, "'pixtral' are not supported"),
    ({"vision_config": 5}, ModelError, "vision_config"),
    ({"model_type": "llava_next"}, UnsupportedError, "llava_next"),
    ({"multimodal_projector_bias": False}, UnsupportedError, "multi_modal_projector"),
]


@pytest.mark.parametrize(("changes", "kind", "text"), WRONG)
def test_what_is_refused(
    changes: dict[str, Any], kind: type[Exception], text: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text):
        _built(_copy(folder, tmp_path / "copy", **changes))


def test_a_language_model_that_cannot_take_images(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    text = {**config["text_config"], "model_type": "mamba"}
    with pytest.raises(UnsupportedError, match="'mamba'"):
        _built(_copy(folder, tmp_path / "copy", text_config=text))
