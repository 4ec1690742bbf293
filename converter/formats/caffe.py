"""How Caffe nets are recognized, their text and their weights."""

from __future__ import annotations

import re
from pathlib import Path

from minnow.converter.file.wire import varint
from minnow.converter.formats import Format

_TEXT = re.compile(rb"(\xef\xbb\xbf)?\s*(#[^\n]*(\n\s*|$))*[A-Za-z_]\w*\s*[:{<]")
_NET = re.compile(rb"(?m)^[^#\n]*\b(layers?\s*(?::\s*)?[{<]|input_(dim|shape)\s*[:{<])")
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


FORMAT = Format("caffe", _sniff, (".caffemodel", ".prototxt"))
