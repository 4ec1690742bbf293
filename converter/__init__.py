"""Foreign file -> IR. `read(path)` finds the format by content and gives a Model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minnow.converter.base import read as read

__all__ = ["read"]


def __getattr__(name: str) -> Any:
    if name == "read":
        from minnow.converter.base import read

        return read
    raise AttributeError(name)
