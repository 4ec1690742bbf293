"""Other messages of a protobuf schema: fields, enums, counts, names and nested messages change as the schema allows."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message

NUMBERS = (0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 127, 128, 255, 256, 1000, 4096, 65535, 1 << 20, (1 << 31) - 1, -(1 << 31),
           1 << 31, 1 << 32, 1 << 40, 1 << 62, -(1 << 63), (1 << 63) - 1)  # fmt: skip
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-9, 1e30, -1e30, 3.4e38, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", "x", "y", "w", "0", "NCHW", "NHWC", "SAME", "VALID", "linear", "\0", "é" * 50, "../x", "/etc/passwd", ":1",
         "^x", "a/b", "Conv", "If", "Loop", "a" * 5000)  # fmt: skip
_DEEP = 12


def damaged_message(kind: type[Any], data: bytes, dice: random.Random, other: bytes = b"") -> bytes:
    """One to four changes of a message.

    Args:
        kind: its class. data: the message. other: another one, of which parts may be taken.

    Raises:
        DecodeError: the bytes are no message of that kind.
    """
    message = kind.FromString(data)
    names = _names(kind, data)
    spare = kind.FromString(other) if other else None
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        part = _descend(message, dice)
        if spare is not None and dice.random() < 0.15:
            _take(part, spare, dice)
            continue
        fields = [f for f, _ in part.ListFields()]
        if not fields or dice.random() < 0.35:
            fields = list(part.DESCRIPTOR.fields)
        if not fields:
            continue
        try:
            _change(part, dice.choice(fields), dice, names)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
            continue  # a value that the field cannot have
    return bytes(message.SerializeToString())


@lru_cache(4096)
def _names(kind: type[Any], data: bytes) -> list[str]:
    """The same few files are changed over and over."""
    return sorted(_texts(kind.FromString(data)))


def _parts(message: Any) -> list[Any]:
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            found += [v for v in value.values() if isinstance(v, Message)]
        elif field.is_repeated:
            found += value
        else:
            found.append(value)
    return found


def _descend(message: Any, dice: random.Random) -> Any:
    """A message inside, or this one; those far in as likely as those near."""
    for _ in range(_DEEP):
        inner = _parts(message)
        if not inner or dice.random() < 0.2:
            break
        message = dice.choice(inner)
    return message


def _texts(message: Any) -> set[str]:
    """The texts of a message: most are names by which others refer to something."""
    found: set[str] = set()
    todo = [message]
    while todo and len(found) < 200:
        part = todo.pop()
        todo += _parts(part)
        for field, value in part.ListFields():
            if field.type == field.TYPE_STRING and not (field.message_type and field.message_type.GetOptions()):
                found.update(v for v in (value if field.is_repeated else (value,)) if isinstance(v, str))
    return found


def _take(part: Any, spare: Any, dice: random.Random) -> None:
    """Puts a message of another file in the place of one of the same kind."""
    for _ in range(8):
        source = _descend(spare, dice)
        if source.DESCRIPTOR is part.DESCRIPTOR:
            part.CopyFrom(source)
            return
        for field in part.DESCRIPTOR.fields:
            if field.message_type is source.DESCRIPTOR and field.is_repeated:
                getattr(part, field.name).add().CopyFrom(source)
                return


def _change(part: Any, field: Any, dice: random.Random, names: list[str]) -> None:
    here = getattr(part, field.name)
    if dice.random() < 0.12:
        part.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _change_map(here, field, dice, names)
    elif field.message_type is not None:
        _change_parts(here, field, dice)
    elif not field.is_repeated:
        setattr(part, field.name, _scalar(field, dice, names, here))
    else:
        _change_row(here, field, dice, names)


def _change_map(here: Any, field: Any, dice: random.Random, names: list[str]) -> None:
    keys, value = sorted(here), field.message_type.fields_by_name["value"]
    if keys and dice.random() < 0.5:
        del here[dice.choice(keys)]
    key = dice.choice(keys) if keys and dice.random() < 0.5 else dice.choice((*names, *TEXTS[:6]))
    if value.message_type is None:
        here[key] = _scalar(value, dice, names, None)
    elif keys and (other := dice.choice(keys)) in here:
        here[key].CopyFrom(here[other])
    else:
        here[key].SetInParent()


def _change_parts(here: Any, field: Any, dice: random.Random) -> None:
    if not field.is_repeated:
        here.SetInParent()
        return
    what = dice.random()
    if not len(here):
        for _ in range(dice.choice((1, 1, 2, 9))):
            here.add()
    elif what < 0.4:
        chosen = dice.choice(list(here))
        for _ in range(dice.choice((1, 1, 1, 2, 30))):
            here.add().CopyFrom(chosen)
    elif what < 0.7:
        del here[dice.randrange(len(here))]
    else:
        a, b = (dice.choice(list(here)) for _ in range(2))
        keep = type(a)()
        keep.CopyFrom(a)
        a.CopyFrom(b)
        b.CopyFrom(keep)


def _change_row(here: Any, field: Any, dice: random.Random, names: list[str]) -> None:
    what = dice.random()
    if len(here) and what < 0.55:
        at = dice.randrange(len(here))
        here[at] = _scalar(field, dice, names, here[at])
    elif len(here) and what < 0.7:
        del here[dice.randrange(len(here)) :]
    elif len(here) and what < 0.8:
        here.extend(list(here) * dice.choice((1, 2, 7)))
    else:
        for _ in range(dice.choice((1, 1, 2, 5, 70))):
            here.append(_scalar(field, dice, names, None))


def _scalar(field: Any, dice: random.Random, names: list[str], old: Any) -> Any:
    if field.type == field.TYPE_STRING:
        return dice.choice(names) if names and dice.random() < 0.75 else dice.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return damaged_raw(old or b"", dice)
    if field.type == field.TYPE_BOOL:
        return dice.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return dice.choice([v.number for v in field.enum_type.values])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return dice.choice(REALS)
    return number(dice, old)


def number(dice: random.Random, old: Any = None) -> int:
    """A whole number: one that breaks things, a small one, or one near the old."""
    what = dice.random()
    if isinstance(old, int) and what < 0.3:
        return old + dice.choice((-1, 1, -2, 2, old, -old))
    return dice.randrange(-3, 9) if what < 0.6 else dice.choice(NUMBERS)


def damaged_raw(data: bytes, dice: random.Random) -> bytes:
    """Numbers or a text: other bits, a part missing, more of it, or something else."""
    what = dice.random()
    if not data or what < 0.15:
        return dice.choice(
            (b"", b"\xff\xfe", b"x", bytes(4), bytes(64), b"\xff" * 8, b"\0\0\x80\x7f", b"SAME", b"NHWC")
        )
    if what < 0.35:
        return data[: dice.randrange(len(data))]
    if what < 0.45:
        return data + data[: dice.randint(1, 64)]
    copy = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(len(copy))
        word = dice.choice(NUMBERS).to_bytes(8, "little", signed=True)[: dice.choice((1, 4, 8))]
        copy[at : at + len(word)] = word
    return bytes(copy[: len(data)])
