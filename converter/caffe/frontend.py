"""The Caffe frontend object, to which the families register, and the test for the format."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minnow.converter.base import Call, Description, Frontend
from minnow.converter.caffe.wire import varint
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


_TEXT = re.compile(rb"(\xef\xbb\xbf)?\s*(#[^\n]*(\n\s*|$))*[A-Za-z_]\w*\s*[:{<]")
_NET = re.compile(rb"(?m)^[^#\n]*\b(layers?\s*:?\s*[{<]|input_(dim|shape)\s*[:{<])")
_TEXT_BYTES = 1 << 20  # a license in front may be long


def _sniff(path: Path, head: bytes) -> bool:
    """The text of a net, or its weights: a message whose fields are those of a net."""
    if path.is_dir():
        return False
    if head[:1] in b"\x0a\x12\x1a\x22\x28\x32\x38\x42\xa2" and is_net(head):
        return True
    if b"\0" in head:
        return False
    if _TEXT.match(head) and _NET.search(head):
        return True
    if len(head) < 4096 or not (_TEXT.match(head) or head.lstrip()[:1] == b"#"):
        return False
    with path.open("rb") as file:
        text = file.read(_TEXT_BYTES)
    return bool(_TEXT.match(text) and _NET.search(text))


# Fields of a net by number, with the way they are written: 0 a number, 2 with a length. Then what a layer begins with.
_FIELDS = {1: (2,), 2: (2,), 3: (2,), 4: (0, 2), 5: (0,), 6: (2,), 7: (0,), 8: (2,), 100: (2,)}
_NEW_LAYER = b"\x0a\x12\x1a\x22"
_OLD_LAYER = b"\x0a\x12\x1a\x22\x28\x32"


def is_net(head: bytes) -> bool:
    """Whether bytes are the beginning of a binary net: its name at most once, its inputs, and then a layer."""
    try:
        return _begins_a_net(head)
    except ValueError:  # it ends within a field
        return False


def _begins_a_net(head: bytes) -> bool:
    at, named = 0, False
    while at < len(head):
        key, at = varint(head, at)
        number, kind = key >> 3, key & 7
        if kind not in _FIELDS.get(number, ()):
            return False
        size, at = varint(head, at)
        if kind == 0:
            continue
        if at >= len(head):
            return False
        if number == 100:
            return size > 1 and head[at] in _NEW_LAYER
        if number == 2:
            # The functions of a TensorFlow graph have this number, too: they begin with a function, not with its name.
            return size > 1 and head[at] in _OLD_LAYER and (head[at] != 0x0A or _is_old_layer(head[at : at + size]))
        content = head[at : at + size]
        if number == 1:
            if named or any(c < 0x20 for c in content):
                return False
            named = True
        at += size
    return False


def _is_old_layer(content: bytes) -> bool:
    """Whether this begins with a layer of Caffe's first form: a message that begins with a name or the like in text."""
    _, at = varint(content, 1)
    inner = content[at:]
    if not inner or inner[0] not in b"\x0a\x12":
        return False
    size, at = varint(inner, 1)
    return 0 < size < 1024 and all(0x20 <= c < 0x7F for c in inner[at : at + size])


def _read(path: Path, **options: Any) -> Model:
    from minnow.converter.caffe.reader import read

    return read(path, **options)


def _describe(path: Path, **options: Any) -> Description:
    from minnow.converter.caffe.description import describe

    return describe(path, **options)


frontend = CaffeFrontend(
    "caffe", _sniff, _read, _describe, (".caffemodel", ".prototxt"), options=("cut_inputs", "cut_outputs", "weights")
)
"""Mappings register with `@frontend.op(...)`, under the types of Caffe's layers."""
