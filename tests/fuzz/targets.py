"""What is fuzzed: the frontends and the reader of `.mnn` files, by the names that `./dev fuzz` has for them."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzz import samples
from fuzz.messages import damaged_message
from fuzz.probe import Target
from fuzz.tables import damaged_bytes, damaged_mnn, damaged_tflite

import minnow
from minnow.converter.formats import formats

Change = Callable[[bytes, random.Random], bytes]
_CONVERTED = 16
"""Of so many files that can be read, one is converted."""


def _or_bytes(change: Callable[[bytes, bytes, random.Random], bytes]) -> Callable[[bytes, bytes, random.Random], bytes]:
    """Where the schema says nothing, bytes are changed: for a few in any case."""

    def damage(data: bytes, other: bytes, dice: random.Random) -> bytes:
        if dice.random() < 0.85:
            try:
                return change(data, other, dice)
            except Exception:  # noqa: BLE001  (the seed is damaged already, or cannot be written down any more)
                pass
        return damaged_bytes(data, dice)

    return damage


def _conversion(framework: str) -> Callable[[Path, random.Random], object]:
    def run(path: Path, _: random.Random) -> object:
        model = formats()[framework].frontend().read(path)
        if zlib.crc32(path.read_bytes()) % _CONVERTED == 0:
            return minnow.convert(path, framework=framework, output=path.with_name("out.mnn"), verify=False)
        return model

    return run


def _onnx(data: bytes, other: bytes, dice: random.Random) -> bytes:
    import onnx

    return damaged_message(onnx.ModelProto, data, dice, other)


def _tensorflow(data: bytes, other: bytes, dice: random.Random) -> bytes:
    from minnow.converter.tensorflow.message import GraphDef

    return damaged_message(GraphDef, data, dice, other)


def _caffe(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """The definition as text or as a message; both are read."""
    from google.protobuf import text_format

    from minnow.converter.caffe.message import NetParameter

    what, is_text = dice.random(), samples.is_text(data)
    if is_text and what < 0.3:
        return samples.damaged_text(data, dice)

    def message(d: bytes) -> bytes:
        if not samples.is_text(d):
            return d
        return bytes(text_format.Parse(d.decode(), NetParameter(), allow_unknown_field=True).SerializeToString())

    changed = damaged_message(NetParameter, message(data), dice, message(other))
    if not is_text or what > 0.8:
        return changed
    return text_format.MessageToString(NetParameter.FromString(changed)).encode()


def _read_mnn(path: Path, _: random.Random) -> object:
    from minnow.converter import read

    model = read(path)
    if zlib.crc32(path.read_bytes()) % _CONVERTED == 0:
        minnow.convert(path, output=path.with_name("out.mnn"), verify=False)
    return model


def _archive(data: bytes, other: bytes, dice: random.Random) -> bytes:
    from torch_damage import archive_of, damaged, damaged_json, files_of

    if dice.random() < 0.5:
        return bytes(damaged(dice, data))
    files = files_of(data)
    name = dice.choice(sorted(n for n in files if n.endswith(".json")))
    files[name] = damaged_json(dice, files[name])
    return bytes(archive_of(files))


TARGETS = {
    t.name: t
    for t in (
        Target("onnx", "m.onnx", _conversion("onnx"), _or_bytes(_onnx), samples.onnx, samples.onnx_suite),
        Target("tensorflow", "m.pb", _conversion("tensorflow"), _or_bytes(_tensorflow), samples.graphs,
               samples.tf_suite),
        Target("tflite", "m.tflite", _conversion("tflite"), _or_bytes(lambda d, _, dice: damaged_tflite(d, dice)),
               samples.tflite, samples.tflite_suite),
        Target("caffe", "m.prototxt", _conversion("caffe"), _or_bytes(_caffe), samples.caffe, samples.caffe_suite),
        Target("mnn", "m.mnn", _read_mnn, _or_bytes(lambda d, _, dice: damaged_mnn(d, dice)), samples.mnn,
               samples.mnn_suite),
        Target("export", "m.pt2", _conversion("torch"), _or_bytes(_archive), samples.archives, samples.archive_suite),
    )
}  # fmt: skip
