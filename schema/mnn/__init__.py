"""The `.mnn` format: `encode(model)` gives the bytes of a file, `decode(bytes)` gives the model back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.schema.mnn.decoder import decode as decode
    from minnow.schema.mnn.encoder import encode as encode

__all__ = ["decode", "encode"]


def __getattr__(name: str) -> Any:
    # The wire level alone must not pull in the op registry.
    if name == "encode":
        from minnow.schema.mnn.encoder import encode

        return encode
    if name == "decode":
        from minnow.schema.mnn.decoder import decode

        return decode
    raise AttributeError(name)
