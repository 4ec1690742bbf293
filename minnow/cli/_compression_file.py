"""The file of `--compressionParamsFile`: how the weights of single layers are quantized, as JSON or as binary protobuf.

Its messages are those of MNN's compression tools (package MNN.Compression), of which what is about weights is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minnow.converter.file import wire
from minnow.output import write_text
from minnow.schema.errors import FormatError, UnsupportedError, UsageError

VERSION = "3.6.1"
_PRUNE = ("PRUNE", 1)
_WIDTHS = (0, *range(2, 9))

# What a message has: number of the field, its name in JSON, and how it is read. A list is a repeated field.
_WEIGHT: dict[int, tuple[str, Any]] = {2: ("bits", int), 6: ("asymmetric", bool), 7: ("blockSize", int)}
_LAYER: dict[int, tuple[str, Any]] = {
    1: ("input", [{}]), 2: ("weight", [_WEIGHT]), 3: ("output", [{}]), 6: ("opName", str), 7: ("subgraphName", str),
}  # fmt: skip
_QUANTIZE: dict[int, tuple[str, Any]] = {4: ("layer", [_LAYER])}
_ALGO: dict[int, tuple[str, Any]] = {1: ("type", int), 2: ("quantParams", _QUANTIZE)}
_PIPELINE: dict[int, tuple[str, Any]] = {2: ("algo", [_ALGO])}


def read_layers(path: Path) -> dict[str, dict[str, Any]]:
    """What holds for single layers, by their names in the file: fields of a `Recipe`.

    Raises:
        FormatError: the file cannot be read.
        UnsupportedError: it is about more than weights.
        UsageError: a number is out of range.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise FormatError("cannot read the file", where=str(path), why=str(e)) from None
    try:
        text = data.lstrip()[:1] == b"{"
        pipeline = json.loads(data) if text else _message(memoryview(data), _PIPELINE)
        algorithms = [_object(a) for a in _all(_object(pipeline), "algo")]
        found: dict[str, dict[str, Any]] = {}
        for algorithm in algorithms:
            if algorithm.get("type", "QUANTIZE") in _PRUNE:
                hint = "`--detectSparseSpeedUp` stores weights that are mostly zeros without these"
                raise UnsupportedError("pruning by a file is not supported", where=str(path), hint=hint)
            for layer in _all(_object(algorithm.get("quantParams", {})), "layer"):
                name, what = _layer(_object(layer), str(path))
                found[name] = what
    except (ValueError, UnicodeDecodeError) as e:
        raise FormatError("the file has no compression parameters", where=str(path), why=str(e)[:200]) from None
    return found


def _layer(layer: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    name = str(layer.get("opName", ""))
    if layer.get("input") or layer.get("output"):
        why = f"the layer '{name}' has scales for its inputs and outputs"
        hint = "weights alone can be quantized: leave out `input` and `output`"
        raise UnsupportedError("integer activations are not supported", where=where, why=why, hint=hint)
    weights = [_object(w) for w in _all(layer, "weight")]
    weight = weights[0] if weights else {}
    what: dict[str, Any] = {}
    if "bits" in weight:
        bits = weight["bits"]
        if bits not in _WIDTHS:
            raise UsageError(f"the layer '{name}' has {bits} bits", where=where, hint="2 to 8; 0 for float")
        what["width"] = bits
    if "asymmetric" in weight:
        what["symmetric"] = not weight["asymmetric"]
    if "blockSize" in weight:
        what["block"] = max(int(weight["blockSize"]), 0)
    return name, what


def write_guide(path: Path, layers: Sequence[Any], recipe: Any) -> None:
    """Writes a file with one entry for each layer of a conversion, to be changed by hand.

    Args:
        path: the file.
        layers: the results of the layers.
        recipe: what was asked for.
    """
    rows = []
    for layer in layers:
        if len(layer.shape) != 4:
            continue
        weight = {
            "name": layer.name,
            "bits": layer.bits if layer.kind == "int" else 0,
            "asymmetric": not recipe.symmetric,
            "blockSize": layer.block or -1,
        }
        outputs, inputs, *kernel = layer.shape
        conv = {"inputChannel": inputs, "outputChannel": outputs, "kernelSize": kernel[::-1]}
        rows.append({"weight": [weight], "opName": layer.name, "conv": conv})
    pipeline = {"version": VERSION, "algo": [{"type": "QUANTIZE", "quantParams": {"layer": rows}}], "forGuide": True}
    write_text(path, json.dumps(pipeline, indent=1) + "\n")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def _all(message: Mapping[str, Any], name: str) -> list[Any]:
    """A repeated field, by its name in JSON or in the definition."""
    value = message.get(name, [])
    if not isinstance(value, list):
        raise ValueError(f"'{name}' is not a list")
    return value


def _message(data: memoryview, known: Mapping[int, tuple[str, Any]]) -> dict[str, Any]:
    """A message in binary form, as JSON has it; fields that are not known are left out."""
    found: dict[str, Any] = {}
    for number, kind, value in wire.fields(data):
        if number not in known:
            continue
        name, how = known[number]
        if isinstance(how, list):
            found.setdefault(name, []).append(_message(_bytes(kind, value), how[0]))
        else:
            found[name] = _single(kind, value, how)
    return found


def _single(kind: int, value: Any, how: Any) -> Any:
    if isinstance(how, dict):
        return _message(_bytes(kind, value), how)
    if how is str:
        return bytes(_bytes(kind, value)).decode()
    if kind != wire.NUMBER:
        raise ValueError("a number is written as something else")
    signed = wire.signed(value)
    return bool(signed) if how is bool else signed


def _bytes(kind: int, value: Any) -> memoryview:
    if kind != wire.BYTES:
        raise ValueError("a message is written as a number")
    assert isinstance(value, memoryview)
    return value
