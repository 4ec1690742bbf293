"""`map` and `scan` of exported programs: a block that is run for each row of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.control_flow.loop import settle
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.program.program import Block
from minnow.converter.torch.symbolic.capture import close
from minnow.converter.torch.symbolic.dimension import scalar, size_of
from minnow.converter.torch.symbolic.structure import Tuple
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value

_MOST_WRITTEN_OUT = 100
"""Nodes that the rounds are written out into; more are a Loop."""


@torch.op("higher_order::map_impl", plain=True)
def _(t, xs, pos_args=(), *, node):
    (block,) = node.node.blocks
    return Tuple(scanned(t, block, [], xs, pos_args, node.name))


@torch.op("higher_order::scan", plain=True)
def _(t, init, xs, additional_inputs=(), *, node):
    (block,) = node.node.blocks
    return Tuple(scanned(t, block, init, xs, additional_inputs, node.name))


def scanned(
    t: Translator, block: Block, first: Sequence[Any], xs: Sequence[Any], others: Sequence[Any], name: str
) -> list[Tensor]:
    """Runs a block for each row.

    Args:
        block: (carried values, a row of each of `xs`, the others) -> the carried values, and rows of results.
        first: the carried values before the first round.

    Returns:
        The carried values in the end, and the results, whose first axis counts the rounds.
    """
    if not xs or not all(isinstance(x, Tensor) for x in [*first, *xs]):
        raise UnsupportedError("map and scan are supported over tensors only")
    rows = [t.value(x) for x in xs]
    length = size_of(t.builder, rows[0], 0)

    def round_(i: Any, state: Sequence[Any]) -> list[Value]:
        parts = [Tensor(t.builder.Gather(x, i, axis=0)) for x in rows]
        after = t.call(block, dict(zip(block.params, [*state, *parts, *others], strict=True)))
        if not all(isinstance(x, Tensor) for x in after) or len(after) < len(first):
            raise ModelError("the body of map or scan must give tensors")
        return [t.value(x) for x in after]

    if isinstance(length, int) and 0 < length <= _MOST_WRITTEN_OUT // max(1, len(list(block.all_nodes()))):
        return _written_out(t, length, round_, first)
    return _loop(t, scalar(t.builder, length), round_, [t.value(x) for x in first], name)


def _written_out(t: Translator, length: int, round_: Any, first: Sequence[Any]) -> list[Tensor]:
    state, made = list(first), []
    for i in range(length):
        after = round_(np.array(i, np.int64), state)
        state = [Tensor(v) for v in after[: len(first)]]
        made.append([t.builder.Unsqueeze(v, axes=(0,)) for v in after[len(first) :]])
    stacked = [t.builder.Concat(*vs, axis=0) if len(vs) > 1 else vs[0] for vs in zip(*made, strict=True)]
    return [*state, *map(Tensor, stacked)]


def _loop(t: Translator, length: Value, round_: Any, start: Sequence[Value], name: str) -> list[Tensor]:
    t.settle()

    def translate(types: list[TensorType]) -> tuple[Graph, list[TensorType]]:
        graph = Graph(name)
        i = graph.add_param(TensorType(DType.I64, ()), "i")
        go = graph.add_param(TensorType(DType.BOOL, ()), "go")
        params = [graph.add_param(type, v.name) for type, v in zip(types, start, strict=True)]
        with t.inside(graph) as journal:
            after = round_(i, [Tensor(p) for p in params])
        if journal.changed():
            raise UnsupportedError("a body of map or scan that changes an outside tensor in place is not supported")
        graph.outputs = [go, *after]
        return graph, [v.type for v in after[: len(params)]]

    graph, _ = settle([v.type for v in start], translate)
    captured = close(graph)
    made = t.builder.Loop(
        length, t.builder.const(np.array(True)), *start, *captured,
        body=graph, num_carried=len(start), n_outputs=len(graph.outputs) - 1,
    )  # fmt: skip
    return [Tensor(v) for v in made]
