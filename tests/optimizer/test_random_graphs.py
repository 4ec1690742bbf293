"""Random graphs through the whole pipeline: the numbers stay, whatever the level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_graphs import graphs, model_of
from rewriting import assert_same_numbers, inputs_for, run
from sampling import some_of

import minnow
from minnow.optimizer.pipeline import optimize
from minnow.schema.ir import Graph
from minnow.schema.mnn import decode, encode
from minnow.schema.registry.verify import verify


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@settings(deadline=None, max_examples=some_of(60), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_numbers_stay(level: int, graph: Graph) -> None:
    verify(graph)
    model = model_of(graph.clone())
    declared = [*model.inputs], [*model.outputs]
    optimize(model, level, check=lambda _, m: verify(m))
    assert_same_numbers(graph, model.graph, tolerance=1e-4)
    assert ([*model.inputs], [*model.outputs]) == declared
    assert [v.type.dtype for v in model.graph.outputs] == [v.type.dtype for v in graph.outputs]


@settings(deadline=None, max_examples=some_of(40), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_files_hold_what_the_optimizer_leaves(graph: Graph) -> None:
    model = model_of(graph.clone())
    optimize(model, 2)
    again = decode(encode(model))
    verify(again)
    assert_same_numbers(graph, again.graph, tolerance=1e-4)
    # A second run finds nothing that the first one has left.
    optimize(again, 2, check=lambda _, m: verify(m))
    assert_same_numbers(graph, again.graph, tolerance=1e-4)


@settings(deadline=None, max_examples=some_of(40), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_files_for_our_engine_keep_the_numbers(graph: Graph) -> None:
    model = model_of(graph.clone())
    optimize(model, 2, target="minnow", check=lambda _, m: verify(m))
    again = decode(encode(model))
    verify(again)
    assert_same_numbers(graph, again.graph, tolerance=1e-4)


@pytest.mark.parametrize("target", ["mnn", "minnow"])
@settings(deadline=None, max_examples=some_of(25), suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_the_engine_gives_the_numbers_of_the_source(target: Any, graph: Graph) -> None:
    model = model_of(graph.clone())
    optimize(model, 3, target=target)
    session = minnow.load(encode(model))
    arrays = inputs_for([p.type for p in graph.params])
    got = session.run({name: a for (name, _), a in zip(model.inputs, arrays, strict=True)})
    for (name, _), want in zip(model.outputs, run(graph, arrays), strict=True):
        scale = max(1.0, float(np.max(np.abs(want), where=np.isfinite(want), initial=0)))
        np.testing.assert_allclose(got[name], want, rtol=0, atol=1e-4 * scale)
