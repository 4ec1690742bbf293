"""The ancestry of nodes after an optimization: sources in the model, and rules that were applied."""

from __future__ import annotations

from pathlib import Path

from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.rewrite import Trace
from minnow.optimizer.rewrite.lineage import Lineage, ancestry_of

DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"


def test_a_fused_node_stands_for_all_that_were_fused() -> None:
    model = read(DIGITS)
    origins = {node.origin for node in model.graph}
    lineage = Lineage()
    trace = Trace(watch=lineage)
    optimize(model, log=trace)
    found = {node: lineage.of(node) for node in model.graph}
    first = next(a for node, a in found.items() if node.op == "Conv")
    assert {"onnx:conv_0", "onnx:batchnormalization_1", "onnx:relu_2"} == {*first.sources}
    assert {"fuse_conv_bn", "fuse_conv_activation"} <= {*first.rules}
    for ancestry in found.values():
        assert {*ancestry.sources} <= origins
        assert all(trace.statistics[rule].hits for rule in ancestry.rules)


def test_an_origin_is_divided_where_its_rules_begin() -> None:
    assert ancestry_of("onnx:a > b > fuse_conv_bn").sources == ("onnx:a > b",)
    assert ancestry_of("onnx:a > b > fuse_conv_bn").rules == ("fuse_conv_bn",)
    assert ancestry_of("assign_layout").sources == ()
