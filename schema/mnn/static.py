"""Static files: all shapes are fixed, and ops that only move elements become `Raster`, a list of copied regions.

MNN's runtime runs such a file without inferring shapes, and without the code that makes regions of ops. Which element
goes where is found with the op's own reference: it is given the places of the elements instead of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import Refused, UnsupportedError
from minnow.schema.ir import Node, TensorType, Value
from minnow.schema.mnn.form import Net
from minnow.schema.mnn.region import regions_of
from minnow.schema.ops import Trait, get
from minnow.schema.registry.encoding import WIRE_DTYPES

# Types of ops in the file that MNN's CPU backend runs as they are; the others it makes of these and of Raster.
_DIRECT = frozenset(
    ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise", "Pooling", "UnaryOp", "ReLU",
     "ReLU6", "PReLU", "Scale", "Softmax", "LayerNorm", "Cast")
)  # fmt: skip
_MATRIX_RANK = 2
_MOST_REGIONS = 4096

NO_FORM = "there is no form of it without inference of shapes"


@dataclass
class _Map:
    """Where the elements of a tensor come from.

    Attributes:
        sizes: numbers of elements of the tensors they come from.
        places: for each element its place in these, one after the other; -1 for one that is 0.
    """

    sizes: dict[int, int]
    places: npt.NDArray[np.int64]

    @property
    def ids(self) -> list[int]:
        return list(self.sizes)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0, *self.sizes.values()]).astype(np.int64)


class Static:
    """A file while it becomes static.

    Args:
        net: the tables of the file.
        ids: the tensors of values.
        nodes: the node of each op, by the identity of its table.
    """

    def __init__(self, net: Net, ids: Mapping[Value, int], nodes: Mapping[int, Node]) -> None:
        self.net = net
        self.ids = ids
        self.nodes = nodes
        self.values = {index: value for value, index in ids.items()}
        self.describe: dict[int, Net] = {}
        self.maps: dict[int, _Map] = {}
        self.made: list[Net] = []
        self.refused: dict[str, list[str]] = {}

    def make(self) -> None:
        """Changes the file. Raises UnsupportedError with all ops that have no such form."""
        self._check_shapes()
        for table in self.net["oplists"]:
            node = self.nodes.get(id(table))
            if node is None:
                self._copied(table)
            elif _moves(node):
                self._moved(node, table)
            else:
                self._computed(node, table)
        if self.refused:
            found = [Refused(reason, tuple(names)) for reason, names in self.refused.items()]
            hint = "leave out --saveStaticModel: runtimes infer the shapes"
            raise UnsupportedError("the model has no static form", hint=hint, refused=found)
        self.net["oplists"] = self._needed()
        for table in self.net["oplists"]:
            for index in table["outputIndexes"]:
                self.describe.setdefault(index, self._tensor(index))
        written = {i for table in self.net["oplists"] for i in table["outputIndexes"]}
        self.net["extraTensorDescribe"] = [self.describe[i] for i in sorted(written)]
        self.net["usage"] = "INFERENCE_STATIC"

    def _needed(self) -> list[Net]:
        """The ops whose results are used: not the shapes of movements, nor those that others have taken over."""
        names = self.net["tensorName"]
        used = {names.index(name) for name in self.net["outputName"]}
        found = []
        for table in reversed(self.made):
            if table["type"] == "Input" or not used.isdisjoint(table["outputIndexes"]):
                found.append(table)
                used.update(table.get("inputIndexes", ()))
        return found[::-1]

    def _check_shapes(self) -> None:
        open_ = [
            (self.net["tensorName"][index], value)
            for index, value in self.values.items()
            if value.type.shape is None or not all(isinstance(d, int) for d in value.type.shape)
        ]
        if open_:
            shown = ", ".join(f"{name}{list(value.type.shape or ())}" for name, value in open_[:5])
            raise UnsupportedError(
                "a static model has no dynamic dimensions",
                why=f"{len(open_)} values have some: {shown}",
                hint="give the shapes of all inputs: --inputConfigFile, or --input NAME=1x3x224x224",
            )
        if self.net["subgraphs"]:
            raise UnsupportedError("a model with branches or loops has no static form")

    def _copied(self, table: Net) -> None:
        """Inputs and constants stay; a copy of an input or constant to an output is a region."""
        if table["type"] != "Identity":
            self.made.append(table)
            return
        source, target = table["inputIndexes"][0], table["outputIndexes"][0]
        self.values[target] = value = self.values[source]
        self._raster(target, np.arange(_size(value)), [source], [value])

    def _moved(self, node: Node, table: Net) -> None:
        op = get(node.op)
        count = len(node.inputs) if op.inputs[0].variadic else 1
        data = [node.input(i) for i in range(count)]
        rest = node.inputs[count:]
        if any(v is not None and v.data is None for v in rest):
            self._refuse(node, table, "where it moves elements to depends on contents")
            return
        places, first = [], 1  # 0 is what no operand gives: padding
        for value in data:
            size = _size(value)
            places.append(np.arange(first, first + size, dtype=np.int64).reshape(value.type.shape))
            first += size
        others = [None if v is None or v.data is None else v.data.numpy() for v in rest]
        if node.op == "Pad" and len(others) > 1 and others[1] is not None and np.any(others[1]):
            self._refuse(node, table, "it pads with another number than 0")
            return
        others = [None if node.op == "Pad" and i > 0 else a for i, a in enumerate(others)]
        results = op.evaluate([*places, *others], node.attrs)
        ids = [self._id(v) for v in data]
        for value, moved in zip(node.outputs, results, strict=False):
            if value in self.ids:
                self._raster(self.ids[value], moved.reshape(-1).astype(np.int64) - 1, ids, data)

    def _raster(self, target: int, places: Any, ids: Sequence[int], values: Sequence[Value]) -> None:
        """Adds an op that fills a tensor; `places` are those of its elements in all operands one after the other."""
        map_ = self._composed(np.asarray(places, np.int64), ids, values)
        self.maps[target] = map_
        found = list(regions_of(map_.places, map_.starts))
        name = self.net["tensorName"][target]
        if len(found) > _MOST_REGIONS:
            self.refused.setdefault(f"its elements come from more than {_MOST_REGIONS} regions", []).append(name)
            return
        # An input for each region, even if it is the same tensor.
        read = [map_.ids[which] for which, _ in found]
        self.made.append({"type": "Raster", "inputIndexes": read, "outputIndexes": [target], "name": name})
        self.describe[target] = {**self._tensor(target), "regions": [region for _, region in found]}

    def _composed(self, places: npt.NDArray[np.int64], ids: Sequence[int], values: Sequence[Value]) -> _Map:
        """The same movement from tensors that no Raster fills: the runtime loses elements in a row of them."""
        sources: dict[int, int] = {}  # of each tensor the number of its elements
        for index, value in zip(ids, values, strict=True):
            known = self.maps.get(index)
            sources |= known.sizes if known else {index: _size(value)}
        first = dict(zip(sources, np.cumsum([0, *sources.values()]).tolist(), strict=False))
        table = []
        for index, value in zip(ids, values, strict=True):
            if known := self.maps.get(index):
                origin = np.searchsorted(known.starts, known.places, side="right") - 1
                moved = np.asarray([first[i] for i in known.ids], np.int64) - known.starts[:-1]
                table.append(np.where(known.places < 0, -1, known.places + moved[np.maximum(origin, 0)]))
            else:
                table.append(np.arange(_size(value)) + first[index])
        joined = np.concatenate([*table, [-1]])  # the last one is for -1
        return _Map(sources, joined[places])

    def _computed(self, node: Node, table: Net) -> None:
        kind = table["type"]
        if kind == "BinaryOp":
            self._binary(node, table)
        elif kind == "Reduction":
            self._reduction(node, table)
        elif kind in _DIRECT or (kind == "MatMul" and all(_is_matrix(v) for v in node.inputs[:2])):
            self.made.append(table)
        else:
            self._refuse(node, table, f"{kind}: {NO_FORM}")

    def _binary(self, node: Node, table: Net) -> None:
        """An elementwise op takes operands of the shape of the result, or of one element: others are repeated."""
        shape = node.output.type.shape
        inputs = list(table["inputIndexes"])
        if len(inputs) != len(node.inputs):
            self._refuse(node, table, f"{node.op}: {NO_FORM}")
            return
        for k, value in enumerate(node.inputs):
            assert value is not None
            assert shape is not None
            size = _size(value)
            if value.type.shape != shape and size > 1:
                inputs[k] = self._repeated(value, inputs[k], node.output, f"{table['name']}/operand{k}")
        self.made.append({**table, "inputIndexes": inputs})

    def _repeated(self, value: Value, index: int, like: Value, name: str) -> int:
        """A tensor with the elements of a smaller one, repeated to the shape of another value."""
        made = self._new(name, like)
        shape = tuple(int(d) for d in like.type.shape or ())
        if value.data is None:
            source = np.arange(_size(value)).reshape(value.type.shape)
            self._raster(made, np.broadcast_to(source, shape).reshape(-1), [index], [value])
            return made
        # The runtime ends if a Raster has constants only.
        wide = Value.constant(np.broadcast_to(value.data.numpy(), shape).copy(), name)
        const = next(t for t in self.net["oplists"] if t["type"] == "Const" and t["outputIndexes"] == [index])
        field = next(f for f in const["main"] if f.endswith("s") and f != "dims")
        assert wide.data is not None
        main = {**const["main"], "dims": list(shape), field: wide.data.numpy().reshape(-1)}
        self.made.append({**const, "main": main, "outputIndexes": [made], "name": name})
        return made

    def _reduction(self, node: Node, table: Net) -> None:
        """The kernel of the runtime takes the middle one of three axes."""
        x, y = node.input(0), node.output
        shape = tuple(int(d) for d in x.type.shape or ())
        axes = [int(a) % len(shape) for a in table["main"].get("dim", range(len(shape)))]
        kept = [a for a in range(len(shape)) if a not in axes]
        places = np.arange(_size(x)).reshape(shape).transpose([*kept, *axes])
        rows, columns = _size(y), _size(x) // max(_size(y), 1)
        wide = self._new(f"{table['name']}/operand", Value(TensorType(x.type.dtype, (rows, columns, 1))))
        narrow = self._new(f"{table['name']}/result", Value(TensorType(y.type.dtype, (rows, 1, 1))))
        self._raster(wide, places.reshape(-1), [table["inputIndexes"][0]], [x])
        main = {**table["main"], "dim": [1], "keepDims": True}
        self.made.append({**table, "main": main, "inputIndexes": [wide], "outputIndexes": [narrow]})
        self._raster(table["outputIndexes"][0], np.arange(rows), [narrow], [y])

    def _refuse(self, node: Node, table: Net, reason: str) -> None:
        self.refused.setdefault(reason, []).append(table["name"])

    def _id(self, value: Value) -> int:
        return self.ids[value]

    def _new(self, name: str, like: Value) -> int:
        self.net["tensorName"].append(name)
        index = len(self.net["tensorName"]) - 1
        self.values[index] = like
        return index

    def _tensor(self, index: int) -> Net:
        value = self.values.get(index)
        table: Net = {"index": index, "name": self.net["tensorName"][index]}
        if value is None:
            return table
        blob: Net = {"dataType": WIRE_DTYPES[value.type.dtype], "dataFormat": _layout(value)}
        if value.type.shape:
            blob["dims"] = list(value.type.shape)
        return {**table, "blob": blob}


def _moves(node: Node) -> bool:
    if node.op == "Resize":
        return bool(node.attrs.get("mode", "nearest") == "nearest")
    return bool(get(node.op).traits & {Trait.MOVEMENT, Trait.REORDER}) or node.op == "Pad"


def _is_matrix(value: Value | None) -> bool:
    return value is not None and value.type.rank == _MATRIX_RANK


def _size(value: Value) -> int:
    return math.prod(d for d in value.type.shape or () if isinstance(d, int))


def _layout(value: Value) -> str:
    return "NC4HW4" if value.type.layout == "nc4hw4" else "NCHW"


def make_static(net: Net, ids: Mapping[Value, int], nodes: Mapping[int, Node]) -> None:
    """Makes a file static; see `Static`. Raises UnsupportedError."""
    Static(net, ids, nodes).make()
