"""Every op of the registry on all its samples, written to a file and read by the engine: operands as inputs of the
model, all but the first as constants, and all as constants, which are folded."""

from __future__ import annotations

import pytest
from engine_oracle import assert_close, graph_of, model_of, run

import minnow
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, Op, Trait, all_ops

OPS = [op for op in all_ops() if Trait.CONTROL_FLOW not in op.traits and op.name not in ("Raw", "Fail")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_op(op: Op) -> None:
    tried = 0
    for sample in op.cases():
        want = op.evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]
        n = len(sample.inputs)
        for first_constant in sorted({n, min(n, 1), 0} if n > 1 else {1}):
            graph, feeds = graph_of(op, sample, first_constant)
            session = minnow.load(encode(model_of(graph)), threads=1)
            what = f"{op.name} {sample}, constant from operand {first_constant}"
            for g, w in zip(run(session, feeds), want, strict=True):
                assert_close(g, w, 2, what)
            tried += 1
    assert tried, f"no sample of {op.name} can be written"


def test_an_op_of_nobody_is_refused() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (1,)))
    graph.outputs = [Builder(graph).Relu(x)]
    data = encode(model_of(graph)).replace(b"out0", b"out1")
    from minnow.schema.mnn import wire

    net = wire.read(data)
    net["oplists"][-1] |= {
        "type": "Extra",
        "main_type": "Extra",
        "main": {"type": "Blur", "engine": "minnow", "attr": []},
    }
    with pytest.raises(UnsupportedError, match="no kernel") as caught:
        minnow.load(wire.write(net))
    assert caught.value.items == ("Blur 'out1': this build has no kernel for it",)
