"""What a file holds to translate, whatever its form: nodes, functions, inputs and outputs."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from minnow.converter.tensorflow.message import GraphDef
from minnow.converter.tensorflow.symbolic.state import Numbers
from minnow.schema.errors import FormatError

_TEXT = re.compile(rb"^[\t\n\r -~]*$")


@dataclass(frozen=True)
class Entry:
    """An input or output that the file declares.

    Attributes:
        name: what the user calls it.
        tensor: its name in the graph, "node:0".
        info: the message that says its type.
    """

    name: str
    tensor: str
    info: Any


@dataclass
class Source:
    """A graph as it lies in a file.

    Attributes:
        where: for messages.
        graph: the GraphDef.
        inputs, outputs: what is declared; None where they follow from the graph.
        load: gives the numbers of variables by name.
        restore: the operator that would restore them.
        producer: the program that wrote it.
        signatures: names of all entry points.
        meta: of a SavedModel, all that it says besides.
    """

    where: str
    graph: Any
    inputs: Sequence[Entry] | None = None
    outputs: Sequence[Entry] | None = None
    load: Callable[[str], Numbers | None] = lambda name: None
    producer: str = "TensorFlow"
    signatures: Sequence[str] = field(default_factory=list)
    meta: Any = None

    @property
    def version(self) -> int:
        return int(self.graph.versions.producer or self.graph.version)


def open_source(path: Path, signature: str = "") -> Source:
    """The graph in a file or folder.

    Args:
        signature: the entry point of a SavedModel.

    Raises:
        FormatError: it is damaged, or none. UsageError: there is no such signature.
    """
    from minnow.converter.formats.tensorflow import is_keras
    from minnow.converter.tensorflow.file.keras import open_keras
    from minnow.converter.tensorflow.file.saved_model import find, open_saved_model

    found = find(path)
    if found is not None:
        return open_saved_model(found, signature)
    with path.open("rb") as file:
        if is_keras(path, file.read(8)):
            return open_keras(path, signature)
    hint = "a frozen graph is needed, as `convert_variables_to_constants_v2` makes it, or a SavedModel"
    graph = parse(path, GraphDef, "graph", hint)
    if not graph.node:
        raise FormatError("the file holds no graph", where=str(path), why="it has no nodes", hint=hint)
    return Source(str(path), graph)


def plain_bytes(path: Path) -> bytes:
    """The content of a regular file. Of pipes and devices the end may never come. Raises FormatError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FormatError("this is not a regular file", where=str(path))
        return path.read_bytes()
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None


def is_text(data: bytes) -> bool:
    """Whether a message is in text form: binary ones begin with a byte that no text does."""
    return _TEXT.match(data[:256]) is not None


def parse(path: Path, kind: Any, what: str, hint: str = "") -> Any:
    """The message in a file, binary or as text. Raises FormatError when it is none."""
    data = plain_bytes(path)
    try:
        if is_text(data):
            message = text_format.Parse(data.decode(), kind(), allow_unknown_field=True)
        else:
            message = kind.FromString(data)
        message.SerializeToString()  # text that is not UTF-8 may show itself here only
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        why = str(e)[:200]
        raise FormatError(f"not a TensorFlow {what}, or damaged", where=str(path), why=why, hint=hint) from None
    return message
