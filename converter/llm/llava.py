"""Models that see in LLaVA's way: an encoder of images, two layers behind it, and a language model that reads both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minnow.converter.llm.checkpoint import Checkpoint, Settings, Sight
from minnow.converter.llm.preprocessing import preprocessing
from minnow.converter.llm.step import Step
from minnow.converter.llm.vision import kind_of, seen
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Blob, Model

KIND = "llava"
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048,
    },
    "mistral": {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096 * 32,
        "sliding_window": 4096,
    },
    "qwen2": {
        "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768,
    },
    "clip_vision_model": {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "image_size": 224, "patch_size": 32,
    },
    "siglip_vision_model": {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "image_size": 224, "patch_size": 16,
    },
}  # fmt: skip
"""What the parts are where their settings do not say it: checkpoints leave out what is as transformers has it."""

_TEXT, _TOWER, _PROJECTOR = "language_model.", "vision_tower.", "multi_modal_projector."
_MOST_LAYERS = 64


def parts(
    config: Mapping[str, Any], tensors: Mapping[str, Blob], path: Path
) -> tuple[Settings, dict[str, Blob], Sight]:
    """The language model of a checkpoint, its settings and tensors, and what it sees with.

    Raises:
        FormatError, ModelError, UnsupportedError: as `preprocessing`; or settings are missing.
    """
    where = str(path / "config.json")
    own = Settings(config, where)
    text, tower = (
        _section(own, name, default) for name, default in (("text", "llama"), ("vision", "clip_vision_model"))
    )
    eyes = Settings(tower, f"{where}, 'vision_config'")
    kind_of(eyes)
    if config.get("tie_word_embeddings") is True:
        text["tie_word_embeddings"] = True
    sorted_tensors: dict[str, dict[str, Blob]] = {"": {}, _TOWER: {}}
    for name, blob in tensors.items():
        part, short = _place(name)
        sorted_tensors[part][short] = blob
    sight = Sight(
        Checkpoint(path, eyes, sorted_tensors[_TOWER]),
        own,
        preprocessing(path, eyes),
    )
    return Settings(text, f"{where}, 'text_config'"), sorted_tensors[""], sight


def _section(own: Settings, name: str, default: str) -> dict[str, Any]:
    """The settings of a part, whole."""
    found = own.section(f"{name}_config")
    table = {} if found is None else dict(found.table)
    kind = str(table.setdefault("model_type", default))
    return {**DEFAULTS.get(kind, {}), **table}


def _place(name: str) -> tuple[str, str]:
    """The part that a tensor belongs to, and its name there. Old checkpoints, and new ones, have other names."""
    short = name.removeprefix("model.")
    if short.startswith(_TEXT):
        inner = short.removeprefix(_TEXT)
        if name == short and inner.startswith(("model.", "lm_head.")):
            return "", inner
        return "", f"model.{inner}"
    if short.startswith(_TOWER):
        return _TOWER, short.removeprefix(_TOWER)
    return (_TOWER if short.startswith(_PROJECTOR) else ""), short


def image_graph(checkpoint: Checkpoint) -> Model:
    """What becomes of images: `pixel_values` f32 [images, channels, size, size] to `image_embeddings` [images, rows,
    hidden], which take the place of rows of tokens.

    Args:
        checkpoint: that of a model that sees.

    Raises:
        UnsupportedError, ModelError: as `seen`.
    """
    assert checkpoint.sight is not None
    own = checkpoint.sight.settings
    layers = _layers(own)
    strategy = own.text("vision_feature_select_strategy", default="default")
    if strategy not in ("default", "full"):
        raise UnsupportedError(
            f"the setting 'vision_feature_select_strategy' is {strategy[:40]!r}, which is not supported",
            where=own.where,
            hint="supported are default and full",
        )
    s = Step(checkpoint.sight.tower)
    hidden = checkpoint.settings.integer("hidden_size", most=1 << 20)
    bias = own.flag("multimodal_projector_bias", default=True)
    x = seen(s, layers, strategy == "full")
    x = s.linear(x, f"{_PROJECTOR}linear_1", hidden, s.hidden * len(layers), bias=bias)
    x = s.function(x, own.text("projector_hidden_act", default="gelu"))
    s.outputs.append(("image_embeddings", s.linear(x, f"{_PROJECTOR}linear_2", hidden, hidden, bias=bias)))
    s.weights.check_all_used(())
    model = s.model()
    model.metadata.clear()
    return model


def image_token(checkpoint: Checkpoint) -> int:
    """The token that stands for images in texts. Raises ModelError if it is not in the vocabulary."""
    assert checkpoint.sight is not None
    token = checkpoint.sight.settings.integer("image_token_index", "image_token_id", default=32000, least=0)
    vocab = checkpoint.settings.integer("vocab_size")
    if token >= vocab:
        why = f"it is {token}, and there are {vocab:,} tokens"
        raise ModelError("the token of images is not in the vocabulary", where=checkpoint.sight.settings.where, why=why)
    return token


def _layers(own: Settings) -> list[int]:
    """Whose hidden states are read."""
    value = own.raw("vision_feature_layer")
    value = -2 if value is None else value
    found = list(value) if isinstance(value, list) else [value]
    if not 1 <= len(found) <= _MOST_LAYERS or any(type(n) is not int for n in found):
        raise ModelError(f"the hyperparameter 'vision_feature_layer' is {str(value)[:80]!r}", where=own.where)
    return found
