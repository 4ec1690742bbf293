"""Files have a normalization of channels and its numbers per channel apart: the engine runs them as one."""

from __future__ import annotations

import numpy as np
import pytest
from engine_oracle import check, model_of, session_of

import minnow
from minnow.optimizer import optimize
from minnow.schema.ir import Graph
from minnow.schema.ir.text import parse
from minnow.schema.mnn import encode

_AFFINE = "f32[6](1.0, -2.0, 3.0, 0.5, 0.25, 7.0), f32[6](0.0, 1.0, -1.0, 2.0, 3.0, 0.125)"


def _ops(session: minnow.Session, x: np.ndarray) -> set[str]:
    return {row["op"] for row in session.profile({"in0": x}, 1)}


def _graph(norm: str, shape: str) -> Graph:
    return parse(f"graph g(%x: f32[{shape}]) {{ %a: f32[{shape}] = {norm} %y: f32[{shape}] = Relu(%a) return %y }}")


@pytest.mark.parametrize("shape", ["2,6,5,7", "1,6,1,3"])
@pytest.mark.parametrize(
    ("norm", "op"),
    [
        (f"InstanceNorm(%x, {_AFFINE}) {{epsilon=0.01}}", "InstanceNorm"),
        (f"GroupNorm(%x, {_AFFINE}) {{num_groups=3}}", "GroupNorm"),
        (f"GroupNorm(%x, {_AFFINE}) {{num_groups=1}}", "GroupNorm"),
        (f"GroupNorm(%x, {_AFFINE}) {{num_groups=6, epsilon=0.001}}", "GroupNorm"),
    ],
)
def test_one_kernel_for_what_the_file_has_in_two_ops(norm: str, op: str, shape: str) -> None:
    graph = _graph(norm, shape)
    model = model_of(graph.clone())
    optimize(model)
    assert {node.op for node in model.graph} & {"InstanceNorm"} == set()
    session = minnow.load(encode(model), threads=1)
    x = np.random.default_rng(0).standard_normal([int(d) for d in shape.split(",")]).astype(np.float32) * 3 + 1
    check(graph, [x], session)
    assert op in _ops(session, x)
    assert not {"LayerNorm", "Scale"} & _ops(session, x)


@pytest.mark.parametrize(
    ("norm", "more"),
    [
        ("LayerNorm(%x) {axis=3}", "%y"),
        ("LayerNorm(%x, f32[7](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)) {axis=3}", "%y"),
        ("LayerNorm(%x) {axis=0}", "%y"),
        ("RMSNorm(%x) {axis=2}", "%y"),
        ("LayerNorm(%x) {axis=2}", "%y, %a"),
    ],
)
def test_other_norms_stay_apart(norm: str, more: str) -> None:
    graph = parse(
        f"graph g(%x: f32[2,6,5,7]) {{ %a: f32[2,6,5,7] = {norm} %y: f32[2,6,5,7] = Scale(%a, {_AFFINE}) "
        f"return {more} }}"
    )
    session = session_of(graph)
    x = np.random.default_rng(0).standard_normal((2, 6, 5, 7)).astype(np.float32)
    check(graph, [x], session)
    assert "Scale" in _ops(session, x)
