"""The intermediate representation: values, nodes and graphs with def-use lists.

Everything a pass needs is here by name: `Graph`, `Node`, `Value`, `TensorType`, `DType`, the blobs and the text form.
"""

from minnow.schema.ir.blob import ArrayBlob, Blob, LazyBlob, MappedBlob, PackedBlob, TurnedBlob, unpack_codes
from minnow.schema.ir.compressed import QuantizedBlob, RoundedBlob, SparseBlob, UnreadBlob
from minnow.schema.ir.dtype import DType
from minnow.schema.ir.graph import Graph, Model, Node, State, Value
from minnow.schema.ir.type import UNKNOWN, Dim, TensorType

__all__ = [
    "UNKNOWN",
    "ArrayBlob",
    "Blob",
    "DType",
    "Dim",
    "Graph",
    "LazyBlob",
    "MappedBlob",
    "Model",
    "Node",
    "PackedBlob",
    "QuantizedBlob",
    "RoundedBlob",
    "SparseBlob",
    "State",
    "TensorType",
    "TurnedBlob",
    "UnreadBlob",
    "Value",
    "unpack_codes",
]
