"""Caffe nets of a few layers: their files, what OpenCV makes of them, and the engine of what is converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.schema.mnn import encode

Array = np.ndarray[Any, Any]
Blobs = Mapping[str, Sequence[Array]]


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number: int, content: bytes | str | int) -> bytes:
    """A field of a binary message."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array: Array) -> bytes:
    """The fields of a blob with these numbers."""
    shape = b"".join(map(varint, np.shape(array)))
    return field(5, np.asarray(array, "<f4").tobytes()) + field(7, field(1, shape))


def weights(blobs: Blobs) -> bytes:
    """A .caffemodel with these numbers, by layer."""
    layers = (field(1, name) + b"".join(field(7, blob(a)) for a in arrays) for name, arrays in blobs.items())
    return field(1, "net") + b"".join(field(100, layer) for layer in layers)


def definition(inputs: Mapping[str, Sequence[int]], layers: str) -> str:
    """A .prototxt with these inputs."""
    rows = [
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {d}" for d in shape)
        + " } } }"
        for name, shape in inputs.items()
    ]
    return "\n".join(['name: "net"', *rows, layers])


def layer(type: str, params: str = "", bottoms: Sequence[str] = ("x0",), tops: Sequence[str] = ("y",)) -> str:
    """A layer as text, named "l"."""
    ends = " ".join([*(f'bottom: "{n}"' for n in bottoms), *(f'top: "{n}"' for n in tops)])
    return f'layer {{ name: "l" type: "{type}" {ends} {params} }}'


def write(folder: Path, text: str, blobs: Blobs | None = None) -> Path:
    """Writes the pair of files; gives the path of the definition."""
    path = folder / "net.prototxt"
    path.write_text(text)
    if blobs is not None:
        (folder / "net.caffemodel").write_bytes(weights(blobs))
    return path


def by_us(path: Path, inputs: Mapping[str, Array], level: int = 2, **options: Any) -> dict[str, Array]:
    """The outputs of the engine, of the optimized model written and loaded."""
    model = read(path, **options)
    optimize(model, level)
    return dict(minnow.load(encode(model)).run(dict(inputs)))


def by_opencv(path: Path, inputs: Mapping[str, Array]) -> list[Array]:
    """What OpenCV gives for all tops of the layers that no other layer reads."""
    import cv2

    other = path.with_suffix(".caffemodel")
    net = cv2.dnn.readNetFromCaffe(str(path), str(other) if other.exists() else "")
    for name, array in inputs.items():
        net.setInput(array, name)
    return [np.asarray(top) for tops in net.forwardAndRetrieve(net.getUnconnectedOutLayersNames()) for top in tops]
