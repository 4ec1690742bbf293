"""Ways to damage an archive of torch.export: its bytes, its files, and the description of its program."""

from __future__ import annotations

import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

Files = dict[str, bytes]
Place = tuple[Any, Any]

_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, -(1 << 31), 1 << 40, 1 << 62, 1 << 63, 1 << 100, 10**400, 0.5,
    float("nan"), float("inf"), 1e308, "", "x", "add", "NaN", "9223372036854775807", [], {}, [[]], [0], [-1],
    {"as_int": -1}, {"as_int": 1 << 62}, {"as_none": True}, {"as_tensor": {"name": "x"}}, {"as_tensor": {"name": []}},
    {"as_tensors": []}, {"as_ints": [1 << 40] * 3}, {"as_expr": {"expr_str": "s0*2", "hint": None}},
    {"as_float": "NaN"}, {"as_string": "x"}, "torch.ops.aten.add.Tensor", "torch.ops.higher_order.cond", "../weight_0",
]  # fmt: skip
_NUMBERS = [0, 1, 2, 3, -1, -2, 5, 1 << 20, 1 << 31, 1 << 40, 1 << 62, 1 << 63, -(1 << 63), 10**30]
_TEXTS = ["", "0", "-", "(", "__import__('os')", "\0", ".", "é", "*2", "s99"]


def files_of(content: bytes) -> Files:
    """The files of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def archive_of(files: Files | list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these files, of which two may have the same name."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, data in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, data)
    return out.getvalue()


def edited(content: bytes, end: str, change: Callable[[Any], None]) -> bytes:
    """An archive whose file of JSON with a name that ends so has been changed."""
    files = files_of(content)
    (name,) = (n for n in files if n.endswith(end))
    document = json.loads(files[name])
    change(document)
    files[name] = json.dumps(document).encode()
    return archive_of(files)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """An archive with one kind of damage, or several."""
    kind = rng.random()
    if kind < 0.1:
        return content[: rng.randrange(len(content))]
    if kind < 0.25:
        return _flipped(rng, content)
    files = list(files_of(content).items())
    if kind < 0.4:
        damaged_files(rng, files)
    else:
        described = [i for i, (n, _) in enumerate(files) if n.endswith(".json")]
        program = [i for i in described if "/models/" in files[i][0]]
        i = rng.choice(program if rng.random() < 0.8 else described)
        files[i] = (files[i][0], damaged_json(rng, files[i][1]))
    return archive_of(files, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))


def _flipped(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        # The end is where an archive says what is in it.
        at = rng.randrange(len(data)) if rng.random() < 0.5 else len(data) - 1 - rng.randrange(min(len(data), 2500))
        if rng.random() < 0.7:
            data[at] ^= 1 << rng.randrange(8)
        else:
            value = rng.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, rng.getrandbits(32)])
            struct.pack_into("<I", data, min(at, len(data) - 4), value)
    return bytes(data)


def damaged_files(rng: random.Random, files: list[tuple[str, bytes]]) -> None:
    """One file is missing, cut off, of another name or content, or there twice."""
    i, how = rng.randrange(len(files)), rng.randrange(7)
    name, data = files[i]
    folder = name.partition("/")[0]
    if how == 0:
        del files[i]
    elif how == 1:
        files[i] = (name, data[: rng.randrange(len(data) + 1)])
    elif how == 2:
        files.append((name, data[::-1]))
    elif how == 3:
        others = [
            "x",
            f"/{name}",
            f"../{name}",
            f"{name}/",
            f"{folder}/archive_format",
            "serialized_exported_program.json",
        ]
        files[i] = (rng.choice(others), data)
    elif how == 4:
        files.append((f"{folder}/models/other.json", data))
    elif how == 5 and data:
        changed = bytearray(data)
        for _ in range(rng.choice([1, 3, 10])):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        files[i] = (name, bytes(changed))
    else:
        files[i] = (name, data * rng.choice([2, 1000]))


def _places(x: Any) -> Iterator[Place]:
    """Every place in a document, by what holds it and the key there."""
    todo = [x]
    while todo:
        x = todo.pop()
        for k in x if isinstance(x, dict) else range(len(x)):
            yield x, k
            if isinstance(x[k], (dict, list)):
                todo.append(x[k])


def copied(x: Any) -> Any:
    try:
        return json.loads(json.dumps(x))
    except RecursionError:  # what has been made too deep before
        return 0


def damaged_json(rng: random.Random, text: bytes) -> bytes:
    """A document with other names, numbers, types, or parts missing, twice, swapped or deep."""
    document = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        places = list(_places(document))
        names = [(a, k) for a, k in places if k in ("name", "as_name") and isinstance(a[k], str)]
        numbers = [(a, k) for a, k in places if type(a[k]) is int]
        kind = rng.random()
        if kind < 0.15 and names:
            (a, k), (b, j) = rng.choice(names), rng.choice(names)
            a[k] = b[j]
        elif kind < 0.4 and numbers:
            a, k = rng.choice(numbers)
            a[k] = rng.choice([*_NUMBERS, a[k] + 1, a[k] - 1, a[k] * 2])
        elif places:
            _damage_place(rng, kind, *rng.choice(places), places)
    try:
        return json.dumps(document).encode()
    except RecursionError:  # copies of what is deep, in each other
        return text


def _damage_place(rng: random.Random, kind: float, a: Any, k: Any, places: list[Place]) -> None:
    if kind < 0.55:
        del a[k]
    elif kind < 0.75:
        a[k] = copied(rng.choice(_VALUES))  # else a list would be in many places, and in itself
    elif kind < 0.85:
        b, j = rng.choice(places)
        a[k] = copied(b[j])
    elif kind < 0.9 and isinstance(a, list):
        a.insert(k, copied(rng.choice(a)))
    elif kind < 0.93:
        deep: Any = 0
        for _ in range(rng.choice([10, 200, 400])):
            deep = [deep] if rng.random() < 0.5 else {"as_tensor": deep}
        a[k] = deep
    elif isinstance(a, list):
        rng.shuffle(a)
    elif isinstance(a[k], str):
        i = rng.randrange(len(a[k]) + 1)
        a[k] = a[k][:i] + rng.choice(_TEXTS) + a[k][i + rng.randrange(2) :]
    else:
        a[k] = [a[k]]
