"""The messages of TensorFlow's files as classes: `message.GraphDef.FromString(bytes)`."""

from __future__ import annotations

from minnow.converter.file.message import load
from minnow.converter.tensorflow.graph_descriptor import FILES

_class = load(FILES, "minnow.tensorflow")
GraphDef = _class("GraphDef")
NodeDef = _class("NodeDef")
AttrValue = _class("AttrValue")
TensorProto = _class("TensorProto")
TensorShapeProto = _class("TensorShapeProto")
FunctionDef = _class("FunctionDef")
SavedModel = _class("SavedModel")
MetaGraphDef = _class("MetaGraphDef")
SignatureDef = _class("SignatureDef")
TrackableObjectGraph = _class("TrackableObjectGraph")
BundleHeaderProto = _class("BundleHeaderProto")
BundleEntryProto = _class("BundleEntryProto")
VariableDef = _class("VariableDef")

_types = TensorProto.DESCRIPTOR.fields_by_name["dtype"].enum_type


def type_name(code: int) -> str:
    """The name of an element type, "DT_FLOAT"; its number when it has none."""
    known = _types.values_by_number.get(code)
    return str(code) if known is None else str(known.name)


def type_code(name: str) -> int:
    """The number of an element type."""
    return int(_types.values_by_name[name].number)
