"""The `.mnn` format: `encode(model)` gives the bytes of a file, `decode(bytes)` gives the model back.

`read_file(path)` reads a file, whose weights are mapped. `save(model, path)` writes one, and a companion weights file
if one file cannot hold all weights.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.schema.mnn.decoder import decode as decode
    from minnow.schema.mnn.decoder import read_file as read_file
    from minnow.schema.mnn.encoder import encode as encode
    from minnow.schema.mnn.encoder import save as save
    from minnow.schema.mnn.side_file import side_path as side_path

_HOME = {
    "decode": "decoder", "encode": "encoder", "read_file": "decoder", "save": "encoder", "side_path": "side_file"
}  # fmt: skip

__all__ = ["decode", "encode", "read_file", "save", "side_path"]


def __getattr__(name: str) -> Any:
    # The wire level alone must not pull in the op registry.
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(name)
