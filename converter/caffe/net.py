"""The inputs and outputs of a net, as its layers imply them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minnow.converter.caffe.frontend import frontend
from minnow.converter.caffe.upgrade import parameter_field
from minnow.schema.ir import UNKNOWN, Dim

Shape = tuple[Dim, ...] | None


def declared_inputs(net: Any, layers: Sequence[Any]) -> dict[str, Shape]:
    """The inputs of a net in their order: those it declares, and what its layers read of the data of a training."""
    read = {name for layer in layers if not frontend.purpose(layer) for name in layer.bottom}
    left = {name for layer in layers if frontend.purpose(layer) for name in layer.bottom} - read
    found: dict[str, Shape] = {}
    for i, name in enumerate(net.input):
        shape: Shape = None
        if i < len(net.input_shape):
            shape = tuple(net.input_shape[i].dim)
        elif dims := tuple(net.input_dim)[4 * i : 4 * i + 4]:
            shape = dims
        found[name] = shape
    for layer in layers:
        if layer.type == "Input":
            shapes = [tuple(s.dim) for s in layer.input_param.shape]
            for i, name in enumerate(layer.top):
                found[name] = shapes[i if len(shapes) == len(layer.top) else 0] if shapes else None
        elif frontend.is_source(layer):
            found |= {n: _data_shape(layer) if i == 0 else None for i, n in enumerate(layer.top) if n in read}
    return {name: shape for name, shape in found.items() if name not in left}


def _data_shape(layer: Any) -> Shape:
    """The shape of the images that a layer reads from a data base, as far as it says."""
    own = getattr(layer, parameter_field(layer.type) or "data_param")
    if layer.type == "MemoryData":
        return tuple(getattr(own, n) or UNKNOWN for n in ("batch_size", "channels", "height", "width"))
    size = layer.transform_param.crop_size or getattr(own, "crop_size", 0) or UNKNOWN
    return (own.batch_size or UNKNOWN, UNKNOWN, size, size)


def unread_tops(layers: Iterable[Any]) -> list[str]:
    """The tops that no later layer reads, in their order."""
    unread: dict[str, None] = {}
    for layer in layers:
        if frontend.purpose(layer) and layer.type != "Silence":
            continue
        for name in layer.bottom:
            unread.pop(name, None)
        if layer.type != "Input" and not frontend.is_source(layer):
            unread |= dict.fromkeys(layer.top)
    return [*unread]


def needed(layers: Sequence[Any], outputs: Iterable[str], inputs: Iterable[str]) -> list[Any]:
    """The layers that the outputs depend on, where the inputs are given."""
    given = set(inputs)
    wanted, kept = set(outputs) - given, []
    for layer in reversed(layers):
        if hit := wanted & set(layer.top):
            wanted = (wanted - hit) | (set(layer.bottom) - given)
            kept.append(layer)
    return kept[::-1]


def without_label_copies(layers: Sequence[Any]) -> list[Any]:
    """The layers without those that copy labels: Caffe puts them in where several losses read one."""
    labels: dict[str, str] = {}
    kept = []
    for layer in layers:
        if frontend.is_source(layer):
            labels |= {name: name for name in layer.top[1:]}
        if layer.type == "Split" and all(name in labels for name in layer.bottom):
            labels |= {top: labels[layer.bottom[0]] for top in layer.top if layer.bottom}
            continue
        for i, name in enumerate(layer.bottom):
            layer.bottom[i] = labels.get(name, name)
        kept.append(layer)
    return kept
