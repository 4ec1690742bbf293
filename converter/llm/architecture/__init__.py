"""The architectures that are known: modules beside this one have their builders, by the decorator `architecture`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from minnow.converter.llm.step import Step

Build = Callable[[Step], None]


@dataclass(frozen=True)
class Architecture:
    """A family of models.

    Attributes:
        model_type: as `config.json` calls it.
        title: models of it, for the documentation.
        build: makes the graph.
        harmless: endings of tensors that may be there and mean nothing.
    """

    model_type: str
    title: str
    build: Build
    harmless: tuple[str, ...] = ()


_known: dict[str, Architecture] = {}


def architecture(title: str, *model_types: str, harmless: tuple[str, ...] = ()) -> Callable[[Build], Build]:
    """Registers a builder for some families."""

    def add(build: Build) -> Build:
        for model_type in model_types:
            _known[model_type] = Architecture(model_type, title, build, harmless)
        return build

    return add


@cache
def architectures() -> dict[str, Architecture]:
    """All families by `model_type`."""
    for info in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{info.name}")
    return dict(sorted(_known.items()))
