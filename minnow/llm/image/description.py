"""What `llm.json` says of images: the token that stands for them, and how they are made ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from minnow.schema.errors import FormatError

_MOST_PIXELS, _MOST_ROWS, _MOST_TOKEN = 1 << 14, 1 << 24, 1 << 31
_FILTERS, _COLORS = 6, 3


@dataclass(frozen=True)
class ImageDescription:
    """Images of a language model.

    Attributes:
        token: stands for an image in texts.
        rows: so many tokens an image takes.
        size: width and height of the images that the encoder takes.
        square: images are filled up to squares with the mean color.
        shortest: what their shorter side becomes, or None. resized: their height and width then, or None.
        filter: Pillow's number of the filter that makes them so.
        crop: height and width of the part in the middle that is taken, or None: all.
        scale, mean, std: numbers are (pixel * scale - mean) / std, for each color.
    """

    token: int
    rows: int
    size: int
    square: bool = False
    shortest: int | None = None
    resized: list[int] | None = None
    filter: int = 3
    crop: list[int] | None = None
    scale: float = 1.0
    mean: list[float] | None = None
    std: list[float] | None = None

    @classmethod
    def of(cls, table: Any, where: str = "") -> ImageDescription:
        """What a table says. Raises FormatError."""
        if not isinstance(table, Mapping):
            raise FormatError("'image' is no table", where=where)
        known = {f.name: table[f.name] for f in fields(cls) if f.name in table}
        for name, value in known.items():
            if not _fits(name, value):
                raise FormatError(f"'image' has {str(value)[:80]!r} as its '{name}'", where=where)
        try:
            made = cls(**known)
        except TypeError as e:
            raise FormatError("'image' misses something", where=where, why=str(e).partition("() ")[2]) from None
        if (made.crop or made.resized) != [made.size, made.size] or (made.mean is None) != (made.std is None):
            raise FormatError("'image' makes no images of the size that the model takes", where=where)
        return made


def _fits(name: str, value: Any) -> bool:
    if value is None:
        return name in ("shortest", "resized", "crop", "mean", "std")
    if name == "square":
        return isinstance(value, bool)
    if name in ("mean", "std"):
        return isinstance(value, list) and len(value) == _COLORS and all(map(_is_number, value)) and (
            name == "mean" or all(abs(std) > 1e-30 for std in value)
        )  # fmt: skip
    if name == "scale":
        return _is_number(value)
    if name in ("resized", "crop"):
        return isinstance(value, list) and len(value) == 2 and all(_is_whole(v, 1, _MOST_PIXELS) for v in value)
    least, most = {"token": (0, _MOST_TOKEN - 1), "rows": (1, _MOST_ROWS), "filter": (0, _FILTERS - 1)}.get(
        name, (1, _MOST_PIXELS)
    )
    return _is_whole(value, least, most)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e30


def _is_whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most
