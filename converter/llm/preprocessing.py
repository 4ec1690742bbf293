"""How images are made ready for a model: what preprocessor_config.json says, in one form for all processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minnow.converter.llm.checkpoint import Settings
from minnow.schema.errors import FormatError, ModelError, UnsupportedError

_CLIP = {
    "do_resize": True, "size": {"shortest_edge": 224}, "do_center_crop": True, "crop_size": 224,
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip
_SIGLIP = {
    "do_resize": True, "size": {"height": 224, "width": 224}, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {"CLIP": _CLIP, "Siglip": _SIGLIP, "Llava": _CLIP}
"""What the processors do where their settings do not say it, by how their names begin."""
_BICUBIC, _FILTERS = 3, 6
_MOST_PIXELS = 1 << 14
_COLORS = 3
_SMALLEST = 1e-30


def preprocessing(folder: Path, tower: Settings) -> dict[str, Any]:
    """How images become the pixels that an encoder reads, as `llm.json` says it.

    Args:
        folder: of the model. tower: the settings of its encoder of images.

    Returns:
        "square": the image is filled up to a square with the mean color; "shortest": what its shorter side becomes, or
        "resized": its height and width; "filter": of Pillow, that makes them so; "crop": height and width of the part
        in the middle; "scale", "mean" and "std": (pixel * scale - mean) / std.

    Raises:
        FormatError: the file is missing, or damaged. ModelError: a setting is wrong, or images get another size.
        UnsupportedError: the processor, or a setting of it, is not known.
    """
    from minnow.converter.llm.folder import read_json

    path = folder / "preprocessor_config.json"
    table = read_json(path, optional=True)
    if not table:
        path = folder / "processor_config.json"
        table = read_json(path, optional=True).get("image_processor") or {}
    if not isinstance(table, dict) or not table:
        hint = "download all files of the model"
        raise FormatError("preprocessor_config.json is missing", where=str(folder), hint=hint)
    name = str(table.get("image_processor_type") or table.get("feature_extractor_type"))
    kind = name.removesuffix("Fast").removesuffix("Pil").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    if kind not in DEFAULTS:
        known = ", ".join(f"{k}ImageProcessor" for k in DEFAULTS)
        raise UnsupportedError(
            f"the processor of images '{name[:60]}' is not supported", where=str(path), hint=f"supported are {known}"
        )
    own = Settings({**DEFAULTS[kind], **{k: v for k, v in table.items() if v is not None}}, str(path))
    made = {**_resizing(own), **_coloring(own)}
    if kind == "Llava" and own.flag("do_pad", default=False):
        made["square"] = True
    size, channels = tower.integer("image_size"), tower.integer("num_channels", default=_COLORS)
    if channels != _COLORS:
        raise UnsupportedError(f"images of {channels} channels are not supported", where=tower.where)
    shape = made.get("crop") or made.get("resized")
    if shape != [size, size]:
        why = f"it takes images of {size} by {size} pixels"
        raise ModelError("images do not get the size that the encoder takes", where=str(path), why=why)
    return made


def _resizing(own: Settings) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if own.flag("do_resize", default=True):
        value = own.raw("size")
        size = {"shortest_edge": value} if type(value) is int else value
        if isinstance(size, dict) and set(size) == {"shortest_edge"}:
            made["shortest"] = _whole(own, "size", size["shortest_edge"])
        else:
            made["resized"] = _shape(own, "size")
        made["filter"] = own.integer("resample", default=_BICUBIC, least=0, most=_FILTERS - 1)
    if own.flag("do_center_crop", default=False):
        made["crop"] = _shape(own, "crop_size")
    return made


def _coloring(own: Settings) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if own.flag("do_rescale", default=True):
        made["scale"] = own.real("rescale_factor", default=1 / 255)
    if own.flag("do_normalize", default=True):
        made["mean"], made["std"] = own.numbers("image_mean", _COLORS), own.numbers("image_std", _COLORS)
        if any(abs(std) <= _SMALLEST for std in made["std"]):
            raise ModelError("the hyperparameter 'image_std' has a zero", where=own.where)
    return made


def _shape(own: Settings, name: str) -> list[int]:
    """Height and width."""
    value = own.raw(name)
    if type(value) is int:
        return [_whole(own, name, value)] * 2
    if not isinstance(value, dict) or set(value) != {"height", "width"}:
        raise UnsupportedError(
            f"the setting '{name}' is {str(value)[:80]!r}, which is not supported",
            where=own.where,
            hint="supported are height and width" + (", or shortest_edge" if name == "size" else ""),
        )
    return [_whole(own, name, value[side]) for side in ("height", "width")]


def _whole(own: Settings, name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_PIXELS:
        raise ModelError(f"the hyperparameter '{name}' is {str(value)[:80]!r}, no number of pixels", where=own.where)
    return value
