"""QLinear operators of ONNX with unsigned weights in place of signed ones, which give the same everywhere.

Where the processor has no dot products of bytes, onnxruntime adds two products of unsigned data and signed weights in
16 bits, which saturate. Products of unsigned data and unsigned weights are exact there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_OPERATORS = ("QLinearConv", "QLinearMatMul", "QGemm")
_DATA_ZERO, _WEIGHTS, _WEIGHTS_ZERO = 2, 3, 5
"""Their operands."""
_MIDDLE = 128
_LEAST_IR = 4
"""The first version of the format whose constants need not be inputs."""
MOST_BYTES = 1 << 30
"""Of a file that is read for it."""


def may_have_signed_weights(model: bytes) -> bool:
    """Whether a model, of which this is the file or its beginning, has such operators."""
    return any(name.encode() in model for name in _OPERATORS)


def with_unsigned_weights(model: bytes) -> bytes | None:
    """The model with 128 added to signed weights that unsigned data is multiplied by, and to their zero points.

    Returns:
        None where there are none; those in other files, and those that are computed, stay as they are.
    """
    import onnx
    from onnx import TensorProto, numpy_helper

    made = onnx.load_model_from_string(model)
    if made.ir_version < _LEAST_IR:
        return None
    constants = {t.name: t for t in made.graph.initializer if t.data_location != TensorProto.EXTERNAL}
    given = {value.name for value in made.graph.input}
    moved: dict[str, str] = {}

    def type_of(node: Any, i: int) -> int:
        name = node.input[i] if len(node.input) > i else ""
        return constants[name].data_type if name in constants and name not in given else 0

    for node in made.graph.node:
        types = tuple(type_of(node, i) for i in (_DATA_ZERO, _WEIGHTS, _WEIGHTS_ZERO))
        if node.op_type not in _OPERATORS or types != (TensorProto.UINT8, TensorProto.INT8, TensorProto.INT8):
            continue
        for i in (_WEIGHTS, _WEIGHTS_ZERO):
            name = node.input[i]
            if name not in moved:
                moved[name] = f"{name}/unsigned"
                array = numpy_helper.to_array(constants[name]).astype(np.int16) + _MIDDLE
                made.graph.initializer.append(numpy_helper.from_array(array.astype(np.uint8), moved[name]))
            node.input[i] = moved[name]
    return made.SerializeToString() if moved else None
