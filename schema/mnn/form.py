"""Variants of a file: what is done to its tables before they are written. The graph stays what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.mnn.fbs import Table, schema

Net = dict[str, Any]


@dataclass(frozen=True)
class FileForm:
    """How a file is written.

    Attributes:
        auth_code: text for `ExtraInfo.name`.
        blocked_border: four-dimensional inputs and outputs of convolutions and the like are in channel blocks (NC4HW4).
        flush: numbers below the least normal float32 become 0.
        sparse: weights of convolutions that are mostly zeros are stored without these.
        tanh_gelu: GELU is computed by tanh instead of erf.
        static: shapes are fixed, and ops that only move elements are lists of copied regions.
        convolutions: matrix products with a constant are convolutions of one element, before the file is written.
    """

    auth_code: str = ""
    blocked_border: bool = False
    flush: bool = False
    sparse: bool = False
    tanh_gelu: bool = False
    convolutions: bool = False
    static: bool = False

    @property
    def lossy(self) -> bool:
        """Whether outputs differ by more than rounding errors from those of the graph."""
        return self.tanh_gelu

    @property
    def comparable(self) -> FileForm:
        """The same form, but for what makes outputs differ, and for what Minnow's engine may not run."""
        return replace(self, tanh_gelu=False, static=False)


def apply(net: Net, form: FileForm) -> None:
    """Changes the tables of a file in place.

    Raises:
        UnsupportedError: they have no such form; what keeps them from it is listed.
    """
    from minnow.schema.mnn import blocked, weights

    steps: tuple[tuple[bool, Callable[[Net, FileForm], None]], ...] = (
        (form.flush, _flush),
        (form.tanh_gelu, _approximate),
        (form.sparse, weights.sparse),
        (form.blocked_border, blocked.block_border),
    )
    for wanted, step in steps:
        if wanted:
            step(net, form)
    if form.auth_code:
        net["extraInfo"]["name"] = form.auth_code


def ops(net: Net) -> Iterator[Net]:
    """All ops of a file, those of subgraphs included."""
    yield from net.get("oplists") or ()
    for graph in net.get("subgraphs") or ():
        yield from graph.get("nodes") or ()


def array_of(vector: Any) -> npt.NDArray[Any]:
    """The numbers of a vector, which may be one that is unpacked when it is written."""
    return np.asarray(vector.numpy() if callable(getattr(vector, "numpy", None)) else vector)


def _flush(net: Net, form: FileForm) -> None:
    tables = schema().tables
    for op in ops(net):
        if isinstance(op.get("main"), dict) and op.get("main_type") in tables:
            _flush_table(tables[op["main_type"]], op["main"])


def _flush_table(table: Table, values: Net) -> None:
    least = np.finfo(np.float32).tiny
    for field in table.fields.values():
        value = values.get(field.name)
        if value is None:
            continue
        if field.kind == "table" and isinstance(value, dict):
            _flush_table(schema().tables[field.type], value)
        elif field.vector and field.type == "float32":
            numbers = array_of(value)
            small = (np.abs(numbers) < least) & (numbers != 0)
            if small.any():
                values[field.name] = np.where(small, np.float32(0), numbers)


def _approximate(net: Net, form: FileForm) -> None:
    for op in ops(net):
        if op.get("type") == "UnaryOp" and op["main"].get("opType") == "GELU_STANDARD":
            op["main"]["opType"] = "GELU"
