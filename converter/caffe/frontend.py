"""The Caffe frontend object, to which the families register."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minnow.converter.base import Call, Description, Frontend
from minnow.converter.formats.caffe import FORMAT
from minnow.schema.errors import ModelError
from minnow.schema.ir import Model, Value

Function = Callable[..., Any]


@dataclass
class Layer(Call):
    """A layer while it is translated.

    Attributes:
        message: its definition, in the newest of Caffe's forms.
        weights: its blobs of numbers, in the order of the file.
    """

    message: Any = field(kw_only=True)
    weights: list[Value] = field(kw_only=True)

    def weight(self, i: int) -> Value:
        """One of its blobs. Raises ModelError where the weights lack it."""
        if i >= len(self.weights):
            have = f"there are {len(self.weights)}" if self.weights else "the file holds none for a layer of this name"
            known = self.context.source.weights is not None
            raise ModelError(
                f"the weights of layer '{self.name}' are missing",
                why=f"{self.op} needs blob {i}; {have}"
                if known
                else "there is no .caffemodel beside the .prototxt that is the only one, or of its name",
                hint="`--weights PATH` names the file with the weights that belong to this net",
            )
        return self.weights[i]


class CaffeFrontend(Frontend):
    """Mappings by the type of the layer; attributes are the fields of its parameters that the file sets.

    Attributes:
        parameters: the field of a layer that holds its parameters, where its name is not that of the type.
        dropped: types of layers that have no part in inference, and what they are.
        sources: types of layers that read the data of a training.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.parameters: dict[str, str] = {}
        self.dropped: dict[str, str] = {}
        self.sources: set[str] = set()
        self.left_out["Input"] = "an input of the model"

    def op(
        self, *names: str, since: int = 1, until: int | None = None, param: str = ""
    ) -> Callable[[Function], Function]:
        """Registers the translation of layers.

        Args:
            param: the field that holds the parameters ("convolution_param"); by default the one of the type's name.
        """
        if param:
            self.parameters.update(dict.fromkeys(names, param))
        return super().op(*names, since=since, until=until)

    def drop(self, *names: str, what: str) -> None:
        """Registers layers that are left out, with what they are for."""
        self.dropped.update(dict.fromkeys(names, what))
        self.left_out.update(dict.fromkeys(names, f"left out: it {what}"))

    def source(self, *names: str) -> None:
        """Registers layers that read the data of a training: what other layers read of it becomes an input."""
        self.sources.update(names)
        self.left_out.update(dict.fromkeys(names, "an input of the model"))

    def is_source(self, layer: Any) -> bool:
        """Whether a layer reads the data of a training: one of those registered, or a fork's that is called so."""
        unknown = layer.type.endswith("Data") and not layer.bottom and layer.type not in self.types()
        return layer.type in self.sources or unknown

    def purpose(self, layer: Any) -> str:
        """What a layer is for that has no part in inference, a fork's loss by its name; "" of all others."""
        unknown = re.search(r"Loss(OHEM)?$", layer.type) is not None and layer.type not in self.types()
        return "is for training" if unknown else self.dropped.get(layer.type, "")

    def types(self) -> set[str]:
        """The types of layers that something is known about."""
        return {*self.mappings, *self.refusals, *self.left_out}


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.caffe.reader import read

    return read(path, **options)


def _describe(path: Path, **options: Any) -> Description:
    from minnow.converter.caffe.description import describe

    return describe(path, **options)


frontend = CaffeFrontend(FORMAT, _read, _describe, options=("cut_inputs", "cut_outputs", "weights"))
"""Mappings register with `@frontend.op(...)`, under the types of Caffe's layers."""
