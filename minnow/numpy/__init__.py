"""The names of numpy, for Vars."""

from typing import Any


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'minnow.numpy' has no attribute {name!r}")
