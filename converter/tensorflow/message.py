"""The messages of TensorFlow's files as classes: `message.GraphDef.FromString(bytes)`.

They live in a pool of their own, so that they never clash with those of an imported `tensorflow`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from minnow.converter.tensorflow.graph_descriptor import FILES

_PACKAGE = "minnow.tensorflow"


def load(files: bytes) -> Callable[[str], Any]:
    """(name of a message) -> its class, from the description that the build makes of graph.proto."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_class = load(FILES)
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
