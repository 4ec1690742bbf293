"""`diffusion.json`: what a folder says of its diffusion pipeline. A conversion writes it, loading reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from minnow.description import read_description
from minnow.diffusion.scheduler.noise import Noise
from minnow.schema.errors import FormatError

FORMAT = 1
"""Version of the file."""
DESCRIPTION, TOKENIZER = "diffusion.json", "tokenizer.json"
MODELS = ("text_encoder", "unet", "vae_decoder")
"""The models of a folder, each in a file of its name."""

_MOST = 1 << 31
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Description:
    """A diffusion pipeline.

    Attributes:
        name: of it.
        channels: of latent images.
        scale: how many times higher and wider pictures are than latent images.
        step: height and width of pictures are multiples of this.
        height, width: of pictures, by default.
        scaling, shift: latent images are what the UNet makes, divided by the first, plus the second.
        length: tokens of a text. vocab_size: of its tokens. padding: the token that fills it.
        scheduler: its settings, by diffusers' names.
    """

    name: str
    channels: int
    scale: int
    step: int
    height: int
    width: int
    scaling: float
    shift: float
    length: int
    vocab_size: int
    padding: int
    scheduler: dict[str, Any]

    def text(self) -> str:
        """The content of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: str | Path) -> Description:
        """What the file in a folder says. Raises FormatError if it is missing, or invalid."""
        path = Path(folder) / DESCRIPTION
        hint = "`mnnconvert FOLDER -o DIR` makes the folder of one of diffusers"
        table = read_description(path, _MOST_BYTES, "diffusion pipeline", hint)
        return cls.of(table, str(path))

    @classmethod
    def of(cls, table: Any, where: str = "") -> Description:
        """What a table says; keys that are not known are passed over. Raises FormatError, UnsupportedError."""
        if not isinstance(table, Mapping) or table.get("format") != FORMAT:
            raise FormatError("the file is of another format", where=where, hint="convert the pipeline again")
        found: dict[str, Any] = {}
        for f in fields(cls):
            value = table.get(f.name)
            if not _is_right(f.name, value):
                raise FormatError(f"'{f.name}' is {str(value)[:80]!r}", where=where)
            found[f.name] = value
        made = cls(**found)
        if made.step % made.scale or made.height % made.step or made.width % made.step:
            raise FormatError("the sizes of pictures do not fit", where=where)
        if made.padding >= made.vocab_size:
            raise FormatError("the token that fills texts is not in the vocabulary", where=where)
        Noise.of(made.scheduler, where=where)
        return made


def _is_right(name: str, value: Any) -> bool:
    if name == "name":
        return isinstance(value, str)
    if name == "scheduler":
        return isinstance(value, dict)
    if name in ("scaling", "shift"):
        return type(value) in (int, float) and abs(value) < _MOST and (name == "shift" or value > 0)
    return type(value) is int and (0 if name == "padding" else 1) <= value < _MOST
