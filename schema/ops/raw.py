"""Ops of the file format that Minnow does not model."""

from __future__ import annotations

from typing import Any

from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, TensorType
from minnow.schema.registry.op import Encoding, T, WireOp, op

CUSTOM_ENGINE = "ONNX"
"""What an op of type `Extra` names as its engine if it is an operator of ONNX that nothing defines."""


def is_custom(node: Any) -> bool:
    """Whether a node is an operator that nothing defines, kept by name. It takes and gives plain memory."""
    return node.op == "Raw" and node.attrs["type"] == "Extra" and node.attrs["main"].get("engine") == CUSTOM_ENGINE


def _encode(node: Any) -> WireOp:
    a = node.attrs
    kept = (a.get("main_type", ""), a.get("main"), node.inputs, len(node.outputs), a.get("format", "NHWC"))
    return WireOp(a["type"], *kept)


def is_rounded(node: Any) -> bool:
    """Whether a node is one that the optimizer has made for runtimes that round tensors to 8 bits."""
    return node.op == "Raw" and node.attrs.get("shape") is not None


def is_window(node: Any) -> bool:
    """Of those, a convolution: its input and its result are in channel blocks."""
    return is_rounded(node) and node.attrs["main_type"] == "Convolution2D"


@op(mnn=Encoding(_encode, lambda wire: None, ()), outputs=None)
def Raw(*xs: T, type: str, main_type: str = "", main: object = None, format: str = "NHWC", roundings: object = None,
        shape: object = None):  # fmt: skip
    """An op of the file kept as it stands: its type, and its parameter table as a dict. Written back unchanged.

    `roundings`: what the file says of its inputs and outputs as integers, a table or None for each, inputs first; None
    where it says nothing. `shape`: of its result, where the optimizer has made the op.
    """
    raise UnsupportedError(f"the op type {type} has no reference")


@Raw.shape
def _(*xs, type, main_type, main, format, roundings, shape, n_outputs):
    dtype = next((x.dtype for x in xs if x is not None), DType.F32)  # as the reader takes it to be
    return (TensorType(dtype, shape),) * (n_outputs or 1)


@Raw.samples
def _(rng):
    return ()
