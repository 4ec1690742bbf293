"""Damaged model files of each format: bytes are changed, and fields of messages, as a seed says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf.message import Message

from minnow.converter.tensorflow.message import GraphDef

_WORDS = (0, 1, 2, 4, 8, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4)
_NUMBERS = (0, 1, -1, 2, 3, 7, 127, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 62), -(1 << 63), (1 << 63) - 1)
_TEXTS = ("", "x", "y", "w", "0", "NCHW", "\0", "é" * 50, "../x", ":1", "^x", "Conv", "If", "Loop")


def of_bytes(data: bytes, dice: random.Random) -> bytes:
    """One to three bytes or words are others, or a part is missing, or there twice."""
    copy = bytearray(data)
    kind = dice.random()
    if kind < 0.1:
        return data[: dice.randrange(len(data))]
    if kind < 0.2:
        a, b = sorted(dice.randrange(len(data)) for _ in range(2))
        return data[:a] + data[b:] if dice.random() < 0.5 else data[:b] + data[a:]
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(copy))
        change = bytes([dice.getrandbits(8)]) if dice.random() < 0.6 else dice.choice(_WORDS).to_bytes(4, "little")
        copy[at : at + len(change)] = change
    return bytes(copy)


def of_text(data: bytes, dice: random.Random) -> bytes:
    """Words and lines of a text are missing, are there twice, or are others."""
    lines = data.split(b"\n")
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines))
        words = lines[at].split(b" ")
        i = dice.randrange(len(words))
        word = str(dice.choice((*_NUMBERS, *_TEXTS, "{", "}", '"', ":", "1e400", "nan"))).encode()
        words[i : i + dice.randint(0, 1)] = [word] * dice.randint(0, 2)
        lines[at : at + 1] = [b" ".join(words)] * dice.choice((0, 1, 1, 1, 2))
        lines = lines or [b""]
    return b"\n".join(lines)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [v for v in value.values() if isinstance(v, Message)]
        else:
            inner = list(value) if field.is_repeated else [value]
        for part in inner:
            yield from _messages(part)


def of_message(message: Any, dice: random.Random) -> bytes:
    """One to three fields of a message are others, missing, or there more than once."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(dice.randint(1, 3)):
        part = dice.choice(list(_messages(copy)))
        field = dice.choice(list(part.DESCRIPTOR.fields))
        try:
            _change(part, field, dice)
        except (ValueError, TypeError, LookupError, AttributeError):  # a value that the field cannot have, or a map
            continue
    return bytes(copy.SerializeToString())


def _change(part: Any, field: Any, dice: random.Random) -> None:
    if dice.random() < 0.25:
        part.ClearField(field.name)
        return
    here = getattr(part, field.name)
    if field.type == field.TYPE_MESSAGE:
        if not field.is_repeated:
            here.SetInParent()
        elif len(here) and dice.random() < 0.5:
            here.add().CopyFrom(dice.choice(list(here)))
        elif len(here):
            del here[dice.randrange(len(here))]
        else:
            here.add()
        return
    new = _scalar(field, dice)
    if not field.is_repeated:
        setattr(part, field.name, new)
    elif len(here) and dice.random() < 0.7:
        here[dice.randrange(len(here))] = new
    else:
        here.append(new)


def _scalar(field: Any, dice: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return dice.choice(_TEXTS)
    if field.type == field.TYPE_BYTES:
        return dice.choice((b"", b"\xff\xfe", b"x", bytes(4), bytes(64)))
    if field.type == field.TYPE_BOOL:
        return dice.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return dice.choice([v.number for v in field.enum_type.values])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return dice.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    return dice.choice(_NUMBERS)


def onnx_of(data: bytes, dice: random.Random) -> bytes:
    return of_message(onnx.ModelProto.FromString(data), dice) if dice.random() < 0.7 else of_bytes(data, dice)


def graph_of(data: bytes, dice: random.Random) -> bytes:
    return of_message(GraphDef.FromString(data), dice) if dice.random() < 0.7 else of_bytes(data, dice)
