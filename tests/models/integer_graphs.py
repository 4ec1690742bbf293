"""Random graphs of integers of all widths, with numbers at the ends of their types."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Node, TensorType, Value
from minnow.schema.ops import Builder, get
from minnow.schema.registry.interpreter import evaluate

TYPES = (DType.I64, DType.I32, DType.I16, DType.U16, DType.U32, DType.I8, DType.U8)
SHAPES = ((), (1,), (3,), (2, 3), (0,), (2, 1))
NAMES = """
Add Sub Mul Div FloorDiv Mod Pow Max Min SquaredDifference Square Neg Abs Sign Relu BitwiseAnd BitwiseOr BitwiseXor
BitwiseNot BitShift Where Concat ReduceSum ReduceMax ReduceMin ReduceProd ReduceMean ReduceL1 ReduceSumSquare CumSum
MatMul Cast Trilu Clip Range Shape Size ArgMax ArgMin NonZero TopK Fill Reshape Transpose Gather Equal Floor Ceil Round
Expand Pad
"""
COMPUTED = NAMES.split()


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype.numpy)
    small = rng.integers(max(info.min, -5), 6, shape)
    wild = rng.integers(info.min, int(info.max) + 1, shape, dtype=dtype.numpy)
    ends = rng.choice(np.array([info.min, info.max, 0, 1], dtype.numpy), shape)
    return np.asarray([small, wild, ends][rng.choice(3, p=[0.7, 0.15, 0.15])]).astype(dtype.numpy)


class Grower:
    """A random graph of integers; all its values are outputs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("g")
        self.b = Builder(self.graph)
        self.inputs: list[Any] = []
        for _ in range(2):
            self.param()
        for _ in range(14):
            self.grow(str(self.rng.choice(COMPUTED)))
        self.graph.outputs = [v for node in self.graph for v in node.outputs]

    def param(self) -> Value:
        dtype, shape = TYPES[self.rng.integers(len(TYPES))], SHAPES[self.rng.integers(len(SHAPES))]
        self.inputs.append(numbers(self.rng, dtype, shape))
        return self.graph.add_param(TensorType(dtype, shape))

    def pick(self, like: Value | None = None) -> Value:
        """A value, or a constant, of the type of another one."""
        found = [v for v in self.graph.values() if v.type.dtype.is_int and v.type.is_static]
        if like is not None:
            found = [v for v in found if v.type.dtype is like.type.dtype]
        if like is not None and self.rng.random() < 0.4:
            return Value.constant(numbers(self.rng, like.type.dtype, SHAPES[self.rng.integers(len(SHAPES))]))
        return found[self.rng.integers(len(found))] if found else self.param()

    def grow(self, name: str) -> None:
        n_before = len(self.graph)
        try:
            self._check(self._make(name).outputs)
        except (MinnowError, ValueError, IndexError, TypeError):
            self._drop(n_before)

    def _make(self, name: str) -> Node:
        op, x = get(name), self.pick()
        attrs: dict[str, Any] = {}
        operands: list[Any] = [x, *(self.pick(x) for _ in op.inputs[1:])]
        if name.startswith("Reduce"):
            operands = [x]
        elif name in ("Floor", "Ceil", "Round"):
            half = self.b.Cast(x, to=DType.F64 if self.rng.random() < 0.5 else DType.F32)
            x = self.b.Div(half, 3.0)
            operands = [x]
        elif name == "Where":
            operands[0] = self.b.Less(x, operands[1])
        elif name == "Concat":
            attrs = {"axis": 0}
        elif name == "CumSum":
            operands[1] = np.int64(0)
            attrs = {"exclusive": bool(self.rng.random() < 0.3)}
        elif name == "Mod":
            attrs = {"fmod": bool(self.rng.random() < 0.5)}
        elif name == "BitShift":
            attrs = {"direction": str(self.rng.choice(["LEFT", "RIGHT"]))}
            operands[1] = np.asarray(self.rng.integers(0, 7, ()), x.type.dtype.numpy)
        elif name == "Cast":
            attrs = {"to": [*TYPES, DType.BOOL, DType.F32, DType.F64, DType.F16][self.rng.integers(len(TYPES) + 4)]}
        elif name == "Clip":
            attrs = {"min": -3.0, "max": float(self.rng.integers(-3, 9))}
        elif name == "TopK":
            operands[1] = np.int64([1])
        elif name in ("Fill", "Expand", "Reshape", "Gather", "Pad"):
            other = {"Fill": [2, 3], "Expand": [2, 3], "Reshape": [-1], "Gather": [0, -1], "Pad": [1, 0]}[name]
            operands = [np.int64(other), x] if name == "Fill" else [x, np.int64(other)]
        elif name == "Transpose":
            attrs = {"perm": tuple(reversed(range(x.type.rank or 0)))}
        elif name == "Range":
            dtype = DType.I64 if x.type.dtype.value.startswith("u") else x.type.dtype
            operands = [np.asarray(n, dtype.numpy) for n in (*self.rng.integers(0, 9, 2), 1)]
        elif name == "Trilu":
            operands = [x]
        elif name == "MatMul" and x.type.dtype.size < 4:
            raise ValueError("nobody multiplies matrices of so small integers")
        return self.b.node(op, operands, attrs, 2 if name == "TopK" else None)

    def _check(self, made: tuple[Value, ...]) -> None:
        """Whether the references can compute it."""
        self.graph.outputs = list(made)
        evaluate(self.graph, self.inputs)
        self.graph.outputs = []

    def _drop(self, keep: int) -> None:
        """Takes away all nodes but the first ones."""
        self.graph.outputs = []
        for node in reversed(list(self.graph)[keep:]):
            self.graph.erase(node)
