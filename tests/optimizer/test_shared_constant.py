"""One constant as both operands of a node: what a rule takes for the other operand may be the same value."""

import numpy as np
import pytest
from rewriting import ALL, apply

from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate


@pytest.mark.parametrize(("op", "number"), [("Sub", 0.0), ("Mul", 1.0), ("Div", 1.0), ("Pow", 1.0)])
def test_neutral_with_itself(op, number):
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F32, (3,)), "x")
    b = Builder(graph)
    constant = b.const(np.float32(number))
    graph.outputs = [b.Mul(x, getattr(b, op)(constant, constant))]
    given = np.array([1, -2, 3], np.float32)
    (wanted,) = evaluate(graph, [given])
    apply(ALL["eliminate_neutral"], graph)
    np.testing.assert_array_equal(evaluate(graph, [given])[0], wanted)
