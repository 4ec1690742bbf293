"""Conversion of nets in older forms of Caffe's format to the newest one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minnow.converter.caffe.frontend import frontend
from minnow.converter.caffe.message import LayerParameter

# What the first form calls otherwise; its other types only write the names of today in small letters.
_FIRST_NAMES = {"conv": "Convolution", "pool": "Pooling", "images": "ImageData", "padding": "Padding"}
_LOSSES = {"softmaxloss": "SoftmaxWithLoss", "hdf5data": "HDF5Data", "hdf5output": "HDF5Output"}

# The first form has the parameters of all layers side by side: here is where each has gone.
_GONE_TO: dict[str, dict[str, str]] = {
    "Convolution": {"num_output": "", "biasterm": "bias_term", "pad": "", "kernelsize": "kernel_size", "group": "",
                    "stride": ""},
    "Pooling": {"pool": "", "pad": "", "kernelsize": "kernel_size", "stride": ""},
    "InnerProduct": {"num_output": "", "biasterm": "bias_term"},
    "Dropout": {"dropout_ratio": ""},
    "LRN": {"local_size": "", "alpha": "", "beta": "", "k": ""},
    "Concat": {"concat_dim": ""},
    "Data": {"batchsize": "batch_size", "cropsize": "crop_size"},
    "ImageData": {"batchsize": "batch_size", "cropsize": "crop_size", "new_height": "", "new_width": ""},
    "WindowData": {"batchsize": "batch_size", "cropsize": "crop_size"},
    "HDF5Data": {"batchsize": "batch_size"},
}  # fmt: skip


def parameter_field(type: str) -> str:
    """The field of a layer that holds the parameters of this type; "" where it has none."""
    if type in frontend.parameters:
        return frontend.parameters[type]
    wanted = f"{type}param".lower()
    return next((f.name for f in LayerParameter.DESCRIPTOR.fields if f.name.replace("_", "") == wanted), "")


def upgraded(net: Any) -> list[Any]:
    """The layers of a net in the newest form; padding that is a layer becomes that of the layers which read it."""
    layers = [*net.layer, *(_from_first(old) if old.HasField("layer") else _from_second(old) for old in net.layers)]
    return _without_padding(layers)


def new_type(old: str) -> str:
    """The name of today of a type in an older form: "INNER_PRODUCT", "innerproduct"; itself where there is none."""
    plain = old.replace("_", "").lower()
    by_plain = {t.lower(): t for t in frontend.types()}
    return _FIRST_NAMES.get(plain) or _LOSSES.get(plain) or by_plain.get(plain, old)


def _started(old: Any, name: str, type: str) -> Any:
    layer = LayerParameter(name=name, type=new_type(type), bottom=old.bottom, top=old.top)
    layer.include.extend(old.include)
    layer.exclude.extend(old.exclude)
    return layer


def _from_second(old: Any) -> Any:
    known = old.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number.get(old.type)
    layer = _started(old, old.name, old.type_name or (known.name if known else str(old.type)))
    for field, value in old.ListFields():
        if field.name.endswith("_param") and field.name in layer.DESCRIPTOR.fields_by_name:
            getattr(layer, field.name).CopyFrom(value)
    return layer


def _from_first(outer: Any) -> Any:
    old = outer.layer
    layer = _started(outer, old.name, old.type)
    places = _GONE_TO.get(layer.type, {})
    for field, value in old.ListFields():
        if field.name in places:
            new = getattr(layer, parameter_field(layer.type))
            name = places[field.name] or field.name
            if new.DESCRIPTOR.fields_by_name[name].is_repeated:
                getattr(new, name).append(value)
            else:
                setattr(new, name, value)
    if layer.type == "Reshape":
        sizes = [getattr(old, f"new_{axis}") for axis in ("num", "channels", "height", "width")]
        layer.reshape_param.shape.dim.extend(sizes)
    if layer.type == "Padding":
        layer.convolution_param.pad.append(old.pad)
    return layer


def _without_padding(layers: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    padded: dict[str, tuple[str, int]] = {}
    for layer in layers:
        if layer.type == "Padding" and len(layer.bottom) == len(layer.top) == 1 and layer.convolution_param.pad:
            padded[layer.top[0]] = (layer.bottom[0], layer.convolution_param.pad[0])
            continue
        for i, name in enumerate(layer.bottom):
            if name in padded and layer.type in ("Convolution", "Pooling"):
                layer.bottom[i], pad = padded[name]
                target = getattr(layer, parameter_field(layer.type))
                del target.pad[:]
                target.pad.append(pad)
        for name in layer.top:
            padded.pop(name, None)
        kept.append(layer)
    return kept
