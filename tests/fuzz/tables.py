"""Other files of a FlatBuffers schema: TFLite files as objects of the schema's code, `.mnn` files as dicts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import flatbuffers
import numpy as np
from fuzz.messages import NUMBERS, REALS, TEXTS, damaged_raw, number

from minnow.schema.mnn import wire

_LARGE = 1 << 16
Place = tuple[Any, Any]
"""What holds a value, and its key or name there."""


def _get(holder: Any, key: Any) -> Any:
    return getattr(holder, key) if isinstance(key, str) and not isinstance(holder, dict) else holder[key]


def _set(holder: Any, key: Any, value: Any) -> None:
    if isinstance(key, str) and not isinstance(holder, dict):
        setattr(holder, key, value)
    else:
        holder[key] = value


def _keys(holder: Any) -> list[Any]:
    if isinstance(holder, dict):
        return sorted(holder)
    if isinstance(holder, list):
        return list(range(len(holder)))
    return sorted(vars(holder)) if hasattr(holder, "__dict__") else []


def _places(root: Any) -> Iterator[Place]:
    todo = [root]
    while todo:
        holder = todo.pop()
        for key in _keys(holder):
            yield holder, key
            value = _get(holder, key)
            if isinstance(value, (dict, list)) or hasattr(value, "__dict__"):
                todo.append(value)


def _copied(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _copied(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_copied(v) for v in x]
    if isinstance(x, np.ndarray) or not hasattr(x, "__dict__"):
        return x
    made = type(x)()
    for key, value in vars(x).items():
        setattr(made, key, _copied(value))
    return made


def _array(value: np.ndarray[Any, Any], dice: random.Random) -> np.ndarray[Any, Any]:
    """Numbers of a vector: some are others, or there are more or fewer."""
    what = dice.random()
    if what < 0.2 or not value.size:
        return value[: dice.randrange(value.size + 1)]
    if what < 0.3 and value.size < _LARGE:
        return np.concatenate([value, value])
    copy = value.copy()
    if value.dtype.kind in "iu":
        at = dice.randrange(value.size)
        old = int(copy[at])
        new = np.array([number(dice, old) & (1 << 8 * value.dtype.itemsize) - 1], np.uint64)
        copy[at] = new.astype(f"u{value.dtype.itemsize}").view(value.dtype)[0]
    else:
        raw = damaged_raw(copy.tobytes(), dice)
        copy = np.frombuffer(raw.ljust(copy.nbytes, b"\0")[: copy.nbytes], value.dtype)
    return copy


def _change(places: list[Place], dice: random.Random, names: list[Any]) -> None:
    holder, key = dice.choice(places)
    value, what = _get(holder, key), dice.random()
    if isinstance(value, np.ndarray):
        _set(holder, key, _array(value, dice))
    elif isinstance(value, (bool, np.bool_)):
        _set(holder, key, not value)
    elif isinstance(value, (int, np.integer)):
        _set(holder, key, number(dice, int(value)))
    elif isinstance(value, (float, np.floating)):
        _set(holder, key, dice.choice(REALS))
    elif isinstance(value, (str, bytes)):
        kind = type(value)
        new = dice.choice(names) if names and what < 0.75 else dice.choice(TEXTS)
        _set(holder, key, new if isinstance(new, kind) else new.encode() if kind is bytes else new.decode("latin-1"))
    elif isinstance(value, list) and value:
        _change_list(value, dice)
    elif what < 0.3:
        if isinstance(holder, dict) or what < 0.1:
            holder.pop(key) if isinstance(holder, dict) else _set(holder, key, None)
    else:  # the same kind of table from elsewhere
        same = [v for h, k in places if type(v := _get(h, k)) is type(value)]
        _set(holder, key, _copied(dice.choice(same)))


def _change_list(value: list[Any], dice: random.Random) -> None:
    what = dice.random()
    if what < 0.25:
        del value[dice.randrange(len(value))]
    elif what < 0.5:
        value.insert(dice.randrange(len(value) + 1), _copied(dice.choice(value)))
    elif what < 0.6:
        value += [_copied(dice.choice(value)) for _ in range(dice.choice((2, 40)))]
    elif what < 0.8:
        i, j = (dice.randrange(len(value)) for _ in range(2))
        value[i], value[j] = value[j], value[i]
    else:
        at = dice.randrange(len(value))
        if isinstance(value[at], int):
            value[at] = number(dice, value[at])


def _damage(root: Any, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5))):
        places = list(_places(root))
        if not places:
            return
        names = [v for h, k in places if isinstance(v := _get(h, k), (str, bytes))]
        _change(places, dice, names)


# The same few files are changed over and over.
@lru_cache(1024)
def _tflite(data: bytes) -> Any:
    from ai_edge_litert import schema_py_generated as fbs

    return fbs.ModelT.InitFromObj(fbs.Model.GetRootAs(data, 0))


_mnn = lru_cache(1024)(wire.read)


def damaged_tflite(data: bytes, dice: random.Random) -> bytes:
    """A TFLite file with other fields. Raises what FlatBuffers raises for bytes that are none, or cannot be packed."""
    model = _copied(_tflite(data))
    _damage(model, dice)
    builder = flatbuffers.Builder(len(data) + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def damaged_mnn(data: bytes, dice: random.Random) -> bytes:
    """A `.mnn` file with other fields, also in its metadata. Raises what `wire` raises."""
    net = _copied(_mnn(data))
    nested = net.get("extraInfo", {}).get("buffer")
    if nested is not None and dice.random() < 0.3:
        extra = _copied(wire.read_nested("Extra", nested.tobytes()))
        _damage(extra, dice)
        net["extraInfo"] = {"buffer": np.frombuffer(wire.write_nested("Extra", extra), np.int8)}
    else:
        _damage(net, dice)
        if dice.random() < 0.3:
            _retyped(net, dice)
    return wire.write(net)


def _retyped(net: dict[str, Any], dice: random.Random) -> None:
    """An op becomes one of another type, or has the parameters of another."""
    ops = [op for graph in (net, *net.get("subgraphs", ())) for op in graph.get("oplists", graph.get("nodes", ()))]
    if not ops:
        return
    op = dice.choice(ops)
    if dice.random() < 0.5:
        op["type"] = dice.choice(sorted(wire.enums["OpType"]))
    else:
        op["main_type"] = dice.choice(sorted(wire.unions["OpParameter"]))
        op["main"] = {}


def damaged_bytes(data: bytes, dice: random.Random) -> bytes:
    """Bytes and words are others, or a part is missing, or there twice."""
    copy, what = bytearray(data), dice.random()
    if not data or what < 0.1:
        return data[: dice.randrange(len(data) + 1)]
    if what < 0.2:
        a, b = sorted(dice.randrange(len(data)) for _ in range(2))
        return data[:a] + data[b:] if what < 0.15 else data[:b] + data[a:]
    for _ in range(dice.choice((1, 1, 2, 3, 9))):
        at = dice.randrange(len(copy))
        if dice.random() < 0.5:
            copy[at] ^= 1 << dice.randrange(8)
        else:
            word = (dice.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
            copy[at : at + 4] = word
    return bytes(copy[: len(data)])
