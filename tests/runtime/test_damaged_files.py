"""Whatever the bytes: a file is run, or refused with one of our errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal
from graph_grower import grown

import minnow
from minnow.schema.errors import FormatError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

WORKER = Path(__file__).with_name("damage_worker.py")


def branching() -> Graph:
    """Control flow, shapes known at run time, operands of all kinds."""
    rng = np.random.default_rng(0)
    graph = Graph()
    cond, x = graph.add_param(TensorType(DType.BOOL, ())), graph.add_param(f32("n", 5, 3, 3))
    b = Builder(graph)

    def branch(make) -> Graph:
        inner = Graph()
        inner.outputs = [make(Builder(inner), inner.add_param(x.type))]
        return inner

    w = normal(rng, 5, 5, 1, 1)
    conv = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    branches = {
        "then_branch": branch(lambda d, v: d.Relu(d.Conv(v, w, **conv))),
        "else_branch": branch(
            lambda d, v: d.Pad(d.MaxPool(v, kernel=(2, 2), **conv), np.array([0, 0, 0, 0, 0, 1, 0, 1]))
        ),
    }
    (y,) = b.node("If", [cond, x], branches, 1).outputs
    flat = b.Flatten(y)
    values, places = b.TopK(flat, np.array([7]), n_outputs=2)
    rows = b.Gather(
        b.Reshape(y, np.array([-1])), b.Squeeze(b.NonZero(b.Greater(b.Reshape(y, np.array([-1])), 0.0)), axes=(0,))
    )
    graph.outputs = [b.Slice(flat, np.array([1]), np.array([-1]), np.array([1])), values, places, rows]
    return graph


def sequences() -> Graph:
    """Bytes that hold tensors, whose sizes only the run knows."""
    graph = Graph()
    x, n = graph.add_param(f32(3, 4)), graph.add_param(TensorType(DType.I64, ()))
    b = Builder(graph)
    s = b.SplitToSequence(x, axis=1, keepdims=False)
    taken = b.SequenceAt(s, b.Mod(n, np.array(4)), dtype=DType.F32)
    longer = b.SequenceInsert(s, b.Relu(taken), np.array(1))
    shorter = b.SequenceErase(longer, np.array(-1))
    parts = b.SplitToSequence(x, np.array([1, 0, 3]), axis=1)
    graph.outputs = [
        b.ConcatFromSequence(shorter, axis=0, new_axis=True, dtype=DType.F32),
        b.ConcatFromSequence(parts, axis=-1, dtype=DType.F32, shape=(3, 4)),
        b.SequenceLength(longer),
        b.SequenceConstruct(x, taken),
    ]
    return graph


MADE = {"branching": branching, "sequences": sequences}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["grown3", "grown17", "grown39", *MADE])
def test_damage(name, tmp_path):
    path = tmp_path / "m.mnn"
    path.write_bytes(encode(model_of(MADE[name]() if name in MADE else grown(int(name[5:]), 25).graph)))
    command = [sys.executable, str(WORKER), str(path), "0", "400"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout[-40:]}: {done.stderr[-2000:]}"
    loaded, ran = (int(n) for n in done.stdout.split()[-2:])
    assert loaded > 60, "most of the damage must get past the reader"
    assert ran > 10


@pytest.mark.parametrize("length", [0, 1, 4, 7, 8, 20, 100, 1000])
def test_beginnings(length):
    data = encode(model_of(grown(3, 25).graph))
    assert length < len(data)
    with pytest.raises(FormatError):
        minnow.load(data[:length])


@pytest.mark.parametrize(("dims", "says"), [([2**20] * 3, "too large|memory"), ([2**16, 2**15, 4], "memory")])
def test_what_no_machine_has_memory_for(dims, says):
    """Refused before the memory is asked for, not killed by the system afterwards."""
    graph = Graph()
    x = graph.add_param(f32("n"))
    b = Builder(graph)
    graph.outputs = [b.ReduceMax(b.Softmax(b.Expand(x, np.array([*dims, 1])), axis=0))]
    with pytest.raises(Exception, match=says):
        minnow.load(encode(model_of(graph))).run({"in0": np.ones(1, np.float32)})
