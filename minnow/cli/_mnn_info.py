"""What `--info` of MNN's converter and GetMNNInfo print about a .mnn file, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minnow.converter.file.door import guarded

_NAMES = {"DT_FLOAT": "float", "DT_DOUBLE": "float", "DT_INT32": "int32", "DT_INT64": "int64", "DT_UINT8": "uint8"}
_NAMES |= {"DT_INT8": "int8", "DT_BOOL": "int32", "DT_HALF": "half", "DT_BFLOAT16": "bfloat16", "DT_INT16": "int16"}
_NHWC_SOURCES = ("TENSORFLOW", "TFLITE")


def info_text(path: Path) -> str:
    """The lines about a file. Raises FormatError if it cannot be read."""
    from minnow.schema.mnn import wire

    with guarded(path):
        net = wire.read(path.read_bytes())
    default = "NHWC" if net.get("sourceType", "CAFFE") in _NHWC_SOURCES else "NCHW"
    rows = [f"Model default dimensionFormat is {default}", "Model Inputs:"]
    rows += [_input(net, op) for op in net.get("oplists", ()) if op.get("type") == "Input"]
    rows += ["Model Outputs:", *(f"[ {name} ]" for name in _outputs(net))]
    rows.append(f"Model Version: {net.get('extraInfo', {}).get('version') or '< 2.0.0'} ")
    if meta := _metadata(net):
        rows += ["MetaData: Begin ", *(f"[Meta] {key} : {value}" for key, value in meta.items()), "MetaData: End "]
    return "\n".join(rows)


def _input(net: dict[str, Any], op: dict[str, Any]) -> str:
    main = op.get("main", {})
    name = net["tensorName"][op["outputIndexes"][0]]
    size = ",".join(str(int(d)) for d in main.get("dims", ()))
    kind = _NAMES.get(main.get("dtype", "DT_FLOAT"), "unknown")
    return f"[ {name} ]: dimensionFormat: {main.get('dformat', 'NC4HW4')}, size: [ {size} ], type is {kind}"


def _outputs(net: dict[str, Any]) -> list[str]:
    if names := net.get("outputName"):
        return list(names)
    ops = net.get("oplists", ())
    read = {int(i) for op in ops for i in op.get("inputIndexes", ())}
    made = [int(i) for op in ops for i in op.get("outputIndexes", ())]
    return [net["tensorName"][i] for i in made if i not in read]


def _metadata(net: dict[str, Any]) -> dict[str, str]:
    from minnow.schema.mnn.decoder import metadata_of

    return metadata_of(net)
