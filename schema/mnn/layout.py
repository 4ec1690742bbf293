"""Layouts of tensors in files of MNN's converter. A tensor is said to be NCHW, NHWC or NC4HW4, whose sizes are those of
NCHW; our graphs have channels first, and transposes where the file converts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE

FORMS = "minnow.forms"
"""Metadata of a file of MNN's converter that was optimized again: it still has some of its forms."""
NOT_WRITTEN = {
    "static": ("fixed shapes", "its copies of elements are by numbers of tensors, which change"),
    "rounded channels last": (
        "8-bit tensors and channels last", "its ops stay in the layout of the file, while ours have channels first"
    ),
}  # fmt: skip
"""Values of FORMS of files that cannot be written again: what they have, and why not."""

# op list: what the file means by these op types depends on the layout of their first operand
_IMAGES = {
    "Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise", "Pooling", "Pooling3D", "Interp",
    "GridSample", "ROIAlign", "ROIPooling", "Scale", "BatchNorm", "InstanceNorm", "GroupNorm", "LRN", "Crop",
    "Normalize", "PReLU", "PriorBox", "SpatialProduct", "Convolution3D", "ConvTranspose3D", "Interp3D", "Resize",
    "Dilation2D",
}  # fmt: skip
"""They give channels first, whatever they get."""
_KEEPING = {"DepthToSpace", "SpaceToDepth", "SpaceToBatchND", "BatchToSpaceND", "CropAndResize"}
"""They give the layout that they get."""
_AS_LARGEST = (_IMAGES - {"PriorBox"}) | _KEEPING | {
    "BinaryOp", "UnaryOp", "ReLU", "ReLU6", "Concat", "Eltwise", "Softmax", "Padding", "Select", "ConvInt8",
    "DepthwiseConvInt8", "Int8ToFloat", "FloatToInt8", "EltwiseInt8",
}  # fmt: skip
"""Their results have as many axes as the operand with the most."""
_TYPED_BY = {"OneHot": 2, "ScatterNd": 1, "Select": 1, "Fill": 1, "CastLike": 1}
"""The operand whose type the result has, where that is not the first."""
_COUNTS = {
    "Shape", "Size", "Rank", "Where", "ArgMax", "ArgMin", "NonMaxSuppressionV2", "UnravelIndex", "TensorArraySize",
}  # fmt: skip
"""Their results are integers."""


_ELEMENTS = {"TensorArrayRead", "TensorArrayGather", "TensorArrayConcat"}
"""They give what an array holds, whose type is among their parameters."""
_LATER_COUNTS = {"Unique": DType.I32, "Svd": DType.F32, "DynamicQuant": DType.F32}
"""The type of all results but the first."""


def result_type(kind: str, inputs: Sequence[Value | None], main: Mapping[str, Any], index: int = 0) -> DType:
    """The type of a result, of number `index`, of an op that is passed on as it is."""
    if kind in _COUNTS:
        return DType.I32
    if kind in _ELEMENTS:
        return FROM_WIRE_DTYPE.get(main.get("T", "DT_FLOAT"), DType.F32)
    if index > 0 and kind in _LATER_COUNTS:
        return _LATER_COUNTS[kind]
    if kind == "DynamicQuant":
        return DType.I8
    if kind == "GatherV2" and "quanParameter" in main:
        return DType.F32  # rows of a table that is packed in the op
    own = inputs[_TYPED_BY[kind]] if kind in _TYPED_BY and len(inputs) > _TYPED_BY[kind] else None
    found = own if own is not None else next((v for v in inputs if v is not None), None)
    return DType.F32 if found is None else found.type.dtype


def turned(b: Builder, x: Value, to_last: bool) -> Value:
    """x with its channels at the other end of its axes. Raises UnsupportedError where its rank is not known."""
    rank = x.type.rank
    if rank is None:
        raise UnsupportedError(
            "the layout of a tensor changes whose rank is not known", where=x.name,
            why="an op before it is none that can be optimized",
        )  # fmt: skip
    if rank < 3:
        return x
    perm = (0, *range(2, rank), 1) if to_last else (0, rank - 1, *range(1, rank - 1))
    return b.Transpose(x, perm=perm)  # type: ignore[no-any-return]


class Layouts:
    """The layouts of the tensors of a graph, by their numbers."""

    def __init__(self, origin: str = "") -> None:
        """Args:
        origin: of a subgraph the layout of inputs of which the file knows nothing; "" for the main graph.
        """
        self._origin = origin
        self._of: dict[int, str] = {}
        self._ranks: dict[int, int | None] = {}

    def of(self, index: int) -> str:
        return self._of.get(index, "NCHW")

    def declare(self, table: Mapping[str, Any], inputs: Sequence[int], outputs: Sequence[int], variable: Any) -> None:
        """Notes the layouts of the results of an op.

        Args:
            variable: whether an operand of this number is no constant.
        """
        kind, main = str(table.get("type", "AbsVal")), table.get("main", {})
        given = [i for i in inputs if i >= 0]
        first = next((i for i in given if variable(i)), given[0] if given else -1)
        layout = self.of(first)
        if kind == "Input":
            layout = main.get("dformat", "NC4HW4") if main else "NC4HW4"
            if self._origin and layout == "NC4HW4" and list(main.get("dims", ())) == [1]:
                layout = self._origin
        elif kind in ("Const", "TrainableParam"):
            layout = main.get("dataFormat", "NCHW")
        elif kind == "ConvertTensor":
            layout = main.get("dest", "NCHW")
        elif kind in _IMAGES and kind != "PriorBox":
            layout = "NC4HW4"
        elif kind in ("Shape", "PriorBox", "Im2Col", "DetectionOutput"):
            layout = "NCHW"
        self._of.update(dict.fromkeys(outputs, layout))

    def operands(
        self, b: Builder, table: dict[str, Any], inputs: Sequence[int], values: Sequence[Value | None]
    ) -> tuple[dict[str, Any], list[Value | None]]:
        """The op and its operands for channels first."""
        kind, values = str(table.get("type", "AbsVal")), list(values)
        self._ranks.update((i, v.type.rank) for i, v in zip(inputs, values, strict=True) if v is not None)
        if not values or values[0] is None:
            return table, list(values)
        layout = self.of(inputs[0])
        if (kind in _IMAGES or kind in _KEEPING) and layout == "NHWC":
            values[0] = turned(b, values[0], to_last=False)
        elif kind == "Reshape" and layout == "NC4HW4" and table.get("main", {}).get("dimType", "NCHW") == "NHWC":
            values[0] = turned(b, values[0], to_last=True)
            table = table | {"main": table["main"] | {"dimType": "NCHW"}}
        elif kind == "Shape" and layout == "NC4HW4" and table.get("defaultDimentionFormat", "NHWC") == "NHWC":
            values[0] = turned(b, values[0], to_last=True)
        if kind == "Shape":
            table = table | {"defaultDimentionFormat": "NCHW"}
        return table, values

    def results(
        self, b: Builder, table: Mapping[str, Any], inputs: Sequence[int], results: Sequence[Value | None]
    ) -> list[Value | None]:
        """The results in the layout that the file means."""
        kind, results = str(table.get("type", "AbsVal")), list(results)
        if not inputs or not results or results[0] is None:
            return results
        ranks = [self._ranks.get(i) for i in inputs if i >= 0]
        known = [r for r in ranks if r is not None]
        if kind in _AS_LARGEST and results[0].type.shape is None and len(known) == len(ranks):
            results[0].type = results[0].type.with_shape((UNKNOWN,) * max(known))
        back = kind in _KEEPING and self.of(inputs[0]) == "NHWC"
        square = (
            kind == "Reshape" and self.of(inputs[0]) == "NC4HW4"
            and table.get("main", {}).get("dimType", "NCHW") == "NHWC" and results[0].type.rank == 4
        )  # fmt: skip
        if back or square:
            results[0] = turned(b, results[0], to_last=back)
        return results
