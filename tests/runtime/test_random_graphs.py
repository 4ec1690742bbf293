"""Random graphs give what the references of their ops give."""

from __future__ import annotations

import pytest
from engine_oracle import check, normal, session_of
from graph_grower import grown


@pytest.mark.parametrize("seed", range(120))
def test_random_graph(seed: int) -> None:
    grower = grown(seed, 6 + seed % 20)
    session = session_of(grower.graph, threads=1 + seed % 2)
    check(grower.graph, grower.inputs, session, scale=20)
    # The memory holds what the first run left there.
    check(grower.graph, [normal(grower.rng, *a.shape) for a in grower.inputs], session, scale=20)
