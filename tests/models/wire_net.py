"""Nets written table by table, for the forms of the file that our own encoder does not write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minnow.schema.mnn import wire

Array = np.ndarray[Any, Any]


class Net:
    """Ops one after the other; tensors are known by their names."""

    def __init__(self, source: str = "ONNX") -> None:
        self.names: list[str] = []
        self.ops: list[dict[str, Any]] = []
        self.source = source

    def _id(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def input(self, name: str, shape: Sequence[int], dtype: str = "DT_FLOAT", format: str = "NCHW") -> str:
        main = {"dtype": dtype, "dims": list(shape), "dformat": format}
        return self.op("Input", [], [name], "Input", main)[0]

    def const(self, name: str, array: Any, format: str = "NCHW") -> str:
        a = np.asarray(array)
        field, dtype = {"f": ("float32s", "DT_FLOAT"), "i": ("int32s", "DT_INT32")}[a.dtype.kind]
        flat = a.reshape(-1).astype(np.float32 if a.dtype.kind == "f" else np.int32)
        blob: dict[str, Any] = {"dataType": dtype, "dataFormat": format, "dims": list(a.shape)}
        if flat.size:
            blob[field] = flat
        return self.op("Const", [], [name], "Blob", blob)[0]

    def op(
        self,
        type: str,
        inputs: Sequence[str | None],
        outputs: Sequence[str],
        main_type: str = "",
        main: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[str]:
        table: dict[str, Any] = {
            "type": type,
            "name": outputs[0],
            "inputIndexes": [-1 if n is None else self._id(n) for n in inputs],
            "outputIndexes": [self._id(n) for n in outputs],
            **more,
        }
        if main_type:
            table |= {"main_type": main_type, "main": dict(main or {})}
        self.ops.append(table)
        return list(outputs)

    def bytes(self, *outputs: str) -> bytes:
        net = {"oplists": self.ops, "tensorName": self.names, "outputName": list(outputs), "sourceType": self.source}
        return wire.write(net)
