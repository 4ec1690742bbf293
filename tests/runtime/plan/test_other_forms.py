"""Ops that the engine computes by way of others: poolings by norms, and transposed groups that do not fill packs."""

from __future__ import annotations

import numpy as np
import pytest
from engine_oracle import check, f32, normal, session_of

from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Builder

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("known", [True, False], ids=["known", "computed"])
@pytest.mark.parametrize(
    ("groups", "ins", "outs", "attrs"),
    [
        (2, 3, 5, {"strides": (2, 2), "pads": (1, 0, 1, 2), "dilations": (1, 1)}),
        (3, 8, 8, {"strides": (1, 2), "pads": (0, 0, 0, 0), "dilations": (2, 1), "activation": "relu"}),
        (5, 1, 2, {"strides": (2, 3), "pads": (1, 1, 1, 1), "dilations": (1, 1), "output_padding": (1, 2)}),
        (2, 16, 7, {"strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}),
        (4, 1, 1, {"strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1)}),
    ],
)
def test_transposed_groups(groups: int, ins: int, outs: int, attrs: dict[str, object], known: bool) -> None:
    shapes = [(2, groups * ins, 5, 7), (groups * ins, outs, 3, 3), (groups * outs,)]
    arrays = [normal(RNG, *s) for s in shapes]
    attrs = {"output_padding": (0, 0), "group": groups, **attrs}
    for has_residual in (False, True):
        graph = Graph()
        x = graph.add_param(f32(*shapes[0]))
        operands = [Value.constant(a) if known else graph.add_param(f32(*a.shape)) for a in arrays[1:]]
        b, feeds = Builder(graph), [arrays[0], *([] if known else arrays[1:])]
        y = b.node("ConvTranspose", [x, *operands], attrs).output
        if has_residual:
            shape = y.type.static_shape
            operands.append(graph.add_param(f32(*shape)))
            feeds.append(normal(RNG, *shape))
            y = b.node("ConvTranspose", [x, *operands], attrs).output
        graph.outputs = [y]
        check(graph, feeds, scale=4)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((2, 3, 11), {"kernel": (3,), "strides": (2,), "pads": (1, 1), "dilations": (1,)}),
        ((1, 17, 9, 7), {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 1)}),
        ((1, 5, 9, 7), {"kernel": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (3, 2)}),
        ((1, 5, 9, 7), {"kernel": (3, 3), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1), "ceil_mode": True}),
        ((1, 5, 9, 7), {"kernel": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1),
                        "auto_pad": "SAME_LOWER"}),
        ((1, 2, 5, 4, 3), {"kernel": (2, 2, 2), "strides": (2, 1, 1), "pads": (0, 1, 0) * 2, "dilations": (1, 1, 1)}),
        ((2, 3, 11), None), ((1, 17, 9, 7), None), ((1, 2, 5, 4, 3), None)
    ],
)  # fmt: skip
def test_norms(shape: tuple[int, ...], window: dict[str, object] | None, p: int) -> None:
    graph = Graph()
    x = graph.add_param(f32(*shape))
    op = "GlobalLpPool" if window is None else "LpPool"
    graph.outputs = [Builder(graph).node(op, [x], {**(window or {}), "p": p}).output]
    session = session_of(graph)
    check(graph, [normal(RNG, *shape)], session)
    if p < 3 and not (window or {}).get("ceil_mode"):
        assert op not in {row["op"] for row in session.profile({"in0": normal(RNG, *shape)}, 1)}
