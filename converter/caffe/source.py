"""The files of a net: the definition (.prototxt) and the weights (.caffemodel), which may hold the definition, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.caffe.message import NetParameter
from minnow.converter.caffe.net import without_label_copies
from minnow.converter.caffe.text import decoded, parse_text, unknown_parameters
from minnow.converter.caffe.upgrade import upgraded
from minnow.converter.caffe.weight import blobs_by_layer
from minnow.schema.errors import FormatError, UsageError

_HINT = "`--weights PATH` names the other file of the pair"


@dataclass
class Source:
    """A net and its weights.

    Attributes:
        where: the file of the definition, for messages.
        files: all files that were read.
        net: the definition, a NetParameter.
        layers: those that take part in inference, in the newest form.
        blobs: the weights by the name of their layer.
        weights: the file of the weights, if there is one.
        strange: unknown parameters of layers by the name of the layer: the parameter and its field.
        form: which of the forms of Caffe's files it has: 0, 1 or 2.
    """

    where: str
    files: list[Path]
    net: Any
    layers: list[Any]
    blobs: dict[str, list[memoryview]]
    weights: Path | None
    form: int
    strange: Mapping[str, set[tuple[str, str]]]


def open_source(path: Path, weights: str | Path | None = None) -> Source:
    """The net in a file and its partner.

    Args:
        path: the definition, or the weights.
        weights: the other one; by default what lies beside it.

    Raises:
        FormatError: a file is damaged, is none of Caffe's, or its partner is not there.
        UsageError: both files are of one kind.
    """
    data = _bytes(path)
    partner = Path(weights) if weights else find_partner(path, is_text(data))
    other = _bytes(partner) if partner is not None else None
    if other is not None and is_text(data) == is_text(other):
        kind = "definitions" if is_text(data) else "weights"
        where = f"{path}, {partner}"
        if weights:
            raise UsageError(f"both files hold {kind} of a net", where=where, hint=_HINT)
        raise FormatError("one of the files is damaged", where=where, why=f"both look like {kind} of a net", hint=_HINT)
    files = [path, *([partner] if partner is not None else [])]
    pair: list[tuple[Path | None, Any]] = [(path, data), (partner, other)]
    text, binary = pair if is_text(data) else pair[::-1]
    strange: Mapping[str, set[tuple[str, str]]] = {}
    if text[0] is not None:
        content = decoded(bytes(text[1]))
        strange = unknown_parameters(content)
        net = parse_text(content, str(text[0]))
    else:
        net = _definition(binary[1], str(binary[0]))
        if not any(layer.type for layer in net.layer) and not net.layers:
            raise FormatError("the file holds no net", where=str(binary[0]), hint=_HINT)
    blobs: dict[str, list[memoryview]] = {}
    if binary[0] is not None:
        blobs = _blobs(binary[1], str(binary[0]))
    where = str(text[0] or binary[0])
    form = 2 if net.layer else 0 if any(old.HasField("layer") for old in net.layers) else 1
    layers = upgraded(net)
    if not layers:
        raise FormatError("the file holds no net", where=where, why="it has no layers")
    # What a trained net has stored of itself is what took part in the training: its rules have been followed.
    kept = [layer for layer in layers if text[0] is None or _takes_part(layer, net)]
    return Source(where, files, net, without_label_copies(kept), blobs, binary[0], form, strange)


def is_text(data: Any) -> bool:
    """Whether a file is a definition as text: binary ones hold bytes that no text does."""
    return not any(c < 9 or 14 <= c < 32 for c in bytes(data[:1024]))


def _definition(data: Any, where: str) -> Any:
    try:
        message = NetParameter.FromString(bytes(data))
        _decode(message)
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        why = str(e)[:200]
        raise FormatError("not the definition of a net, or damaged", where=where, why=why, hint=_HINT) from None
    return message


def _blobs(data: Any, where: str) -> dict[str, list[memoryview]]:
    try:
        return blobs_by_layer(memoryview(data))
    except ValueError as e:
        raise FormatError("not the weights of a net, or damaged", where=where, why=str(e), hint=_HINT) from None


def _decode(message: Any) -> None:
    """Looks at all text of a message: what is no UTF-8 shows itself only then. Raises ValueError."""
    for field, value in message.ListFields():
        if field.name != "blobs":
            for inner in value if field.is_repeated else (value,):
                if field.message_type is not None:
                    _decode(inner)
                elif field.type == field.TYPE_STRING and not isinstance(inner, str):
                    raise ValueError(f"{field.name} is {bytes(inner[:40])!r}, which is no text")


def _bytes(path: Path) -> Any:
    """The content of a file, mapped."""
    try:
        return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=e.strerror or str(e)) from None


# ---- pairs of files


def _stem(path: Path) -> str:
    """The name of a net without what says which of its files this is."""
    return re.sub(r"(?i)(^(deploy|test)[-_.]+|[-_.]+(deploy|test|inference|iter_\d+)$)", "", path.stem).lower()


def find_partner(path: Path, text: bool) -> Path | None:
    """The file that belongs to this one: of the same name, of its beginning, or the only one in the folder.

    Args:
        text: whether the file is the definition.
    """
    suffix = ".caffemodel" if text else ".prototxt"
    try:
        beside = sorted(p for p in path.parent.iterdir() if p.suffix.lower() == suffix and p != path)
    except OSError:
        return None
    tests: Sequence[Any] = (
        lambda p: p.stem == path.stem,
        lambda p: _stem(p) == _stem(path),
        lambda p: not text and re.fullmatch(r"(?i)deploy", p.stem),
        lambda p: True,
    )
    for test in tests:
        found = [p for p in beside if test(p)]
        if len(found) == 1:
            return found[0]
    return None


# ---- which layers take part


def _takes_part(layer: Any, net: Any) -> bool:
    """Caffe's rules, for a net that is not trained: any of the rules to include, or none of those to exclude."""
    if layer.include:
        return any(_meets(rule, net.state) for rule in layer.include)
    return not any(_meets(rule, net.state) for rule in layer.exclude)


def _meets(rule: Any, state: Any) -> bool:
    if rule.HasField("phase") and rule.phase != 1:
        return False
    if rule.HasField("min_level") and state.level < rule.min_level:
        return False
    if rule.HasField("max_level") and state.level > rule.max_level:
        return False
    return set(rule.stage) <= set(state.stage) and not set(rule.not_stage) & set(state.stage)
