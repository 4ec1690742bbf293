"""Models with inputs for programs that have no Python: tests/cross/run_cases.c and those of tests/faults."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from engine_oracle import Array

from minnow.schema.ir import DType, Graph, Value
from minnow.schema.ops import Builder, Op, Trait, all_ops

NATIVE_OPS = [op for op in all_ops() if Trait.CONTROL_FLOW not in op.traits and op.name not in ("Raw", "Fail")]


def graph_of_node(
    op: Op, inputs: Sequence[Array | None], attrs: Mapping[str, Any], n_outputs: int, constant: int
) -> Graph:
    """One node; its operands from number `constant` on are constants."""
    graph = Graph()
    operands = [
        None if a is None else Value.constant(a) if i >= constant else graph.add_param(Value.constant(a).type)
        for i, a in enumerate(inputs)
    ]
    graph.outputs = list(Builder(graph).node(op, operands, attrs, n_outputs).outputs)
    return graph


def fed(inputs: Sequence[Array | None], constant: int) -> list[Array]:
    return [a for a in inputs[:constant] if a is not None]


def case_bytes(file: bytes, inputs: Sequence[Array]) -> bytes:
    """A .mnn file and what it is given."""
    return _block(file) + struct.pack("<i", len(inputs)) + b"".join(map(_tensor, inputs))


def _block(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _tensor(a: Array) -> bytes:
    code = list(DType).index(DType.of(a.dtype))
    return struct.pack(f"<ii{a.ndim}q", code, a.ndim, *a.shape) + _block(np.ascontiguousarray(a).tobytes())


class Answers:
    """What run_cases.c writes, from its start."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def block(self) -> bytes:
        (n,) = self.take("Q")
        self.at += n
        return self.data[self.at - n : self.at]

    def one(self) -> list[Array] | str:
        (code,) = self.take("i")
        return self.block().decode() if code else [self.array() for _ in range(self.take("i")[0])]

    def array(self) -> Array:
        code, rank = self.take("ii")
        shape = self.take(f"{rank}q")
        return np.frombuffer(self.block(), list(DType)[code].numpy).reshape(shape)
