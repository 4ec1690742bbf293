"""Attention of a batch of one, where moving the batch moves nothing."""

from __future__ import annotations

import pytest
from rewriting import assert_same_numbers, read

from minnow.optimizer import optimize
from minnow.schema.ir import Model


@pytest.mark.parametrize("batch", [1, 3])
def test_heads_side_by_side_are_left_where_they_are(batch: int) -> None:
    n = batch
    text = f"""graph g(%q: f32[{n},5,8]) {{
      %0: f32[{n},5,2,4] = Reshape(%q, i64[4]({n}, 5, 2, 4))
      %1: f32[{n},2,5,4] = Transpose(%0) {{perm=(0, 2, 1, 3)}}
      %2: f32[{n},2,4,5] = Transpose(%1) {{perm=(0, 1, 3, 2)}}
      %3: f32[{n},2,5,5] = MatMul(%1, %2)
      %4: f32[{n},2,5,5] = Softmax(%3) {{axis=3}}
      %5: f32[{n},2,5,4] = MatMul(%4, %1)
      %6: f32[{n},5,2,4] = Transpose(%5) {{perm=(0, 2, 1, 3)}}
      %7: f32[{n},5,8] = Reshape(%6, i64[3]({n}, 5, 8))
      return %7
    }}"""
    graph = read(text)
    model = Model(graph, [("q", graph.params[0].type)], [("y", graph.outputs[0].type)])
    optimize(model, target="minnow")
    assert [node.op for node in model.graph] == ["Attention"]
    assert_same_numbers(read(text), model.graph)
