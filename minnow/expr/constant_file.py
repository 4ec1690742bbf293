"""Files of constants, such as the parameters of a module, in the form that MNN writes and reads: constants alone, in
their order, without any op that hands them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.expr.constant import data_format
from minnow.expr.var import PLACEHOLDER, Var
from minnow.schema.errors import FormatError
from minnow.schema.ir import DType
from minnow.schema.mnn import wire
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE, WIRE_DTYPES

_FIELDS = {t: f"{t.numpy.name}s" for t in (DType.F32, DType.I32, DType.I64, DType.I8, DType.U8)}
"""The vector of a constant for each type that has one of its own."""
_KINDS = ("Const", "TrainableParam")


def is_writable(vars: Sequence[Var]) -> bool:
    """Whether all of them are constants or trainables, of types that the format has a code for."""
    return all(v._operation is None and v._kind != PLACEHOLDER and v._type().dtype in _FIELDS for v in vars)


def to_bytes(vars: Sequence[Var]) -> bytes:
    """The bytes of a file of constants. Those without a name of their own get one by their place."""
    names: list[str] = []
    ops = []
    for i, var in enumerate(vars):
        name = var.name if var.name and var.name not in names else f"{var.name or 'Const'}{i + 1}"
        while name in names:
            name += "_"
        array = np.ascontiguousarray(var._value())
        dtype = DType.of(array.dtype)
        main: dict[str, Any] = {"dataFormat": var.data_format.name, "dataType": WIRE_DTYPES[dtype]}
        main[_FIELDS[dtype]] = array.reshape(-1)
        if var.shape:
            main["dims"] = np.asarray(var.shape, np.int32)
        ops.append({"type": "Const", "name": name, "outputIndexes": [i], "main_type": "Blob", "main": main})
        names.append(name)
    return wire.write({"oplists": ops, "tensorName": names, "tensorNumber": len(names)})


def from_file(path: Path) -> list[Var] | None:
    """The constants of a file, None if it holds anything else. Raises FormatError if it cannot be read."""
    net = wire.read(np.memmap(path, np.uint8, mode="r"))
    ops = net.get("oplists", [])
    if not ops or any(op.get("type") not in _KINDS or len(op.get("outputIndexes", ())) != 1 for op in ops):
        return None
    names = list(net.get("tensorName", []))
    made = []
    for op in ops:
        main = op.get("main") or {}
        place, array = int(op["outputIndexes"][0]), _array(main)
        form = data_format.__members__.get(main.get("dataFormat", "NCHW"))
        if array is None or form is None:
            return None
        if not 0 <= place < len(names):
            raise FormatError(f"tensor {place} does not exist", where=str(path))
        var = Var.from_array(array, form)
        var.name = names[place]
        made.append(var)
    return made


def _array(main: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant, None if it has another form."""
    dtype = FROM_WIRE_DTYPE.get(main.get("dataType", "DT_FLOAT"))
    shape = tuple(int(d) for d in main.get("dims", ()))
    if dtype not in _FIELDS or any(d < 0 for d in shape):
        return None
    payload = np.asarray(main.get(_FIELDS[dtype], ()), dtype.numpy)
    if payload.size != int(np.prod(shape, dtype=np.int64)):
        return None
    return np.array(payload.reshape(shape))
