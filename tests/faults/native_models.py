"""The models that the programs of tests/faults run, and what they are given."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from engine_oracle import Array, feeds, model_of
from graph_grower import grown
from hostile_files import concat, looped
from native_cases import case_bytes

import minnow
from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model, State, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "models" / "onnx"


def f32(*shape: int | str) -> TensorType:
    return TensorType(DType.F32, shape)


def layers(seed: int) -> bytes:
    """Convolutions of several kinds, pooling, normalization, a product, with weights of their own."""
    rng = np.random.default_rng(seed)
    graph = Graph()
    b = Builder(graph)
    y = graph.add_param(f32(1, 3, 20, 20))
    for n, m, k in ((3, 16, 3), (16, 16, 1), (16, 24, 3)):
        w = (rng.standard_normal((m, n, k, k)) / 9).astype(np.float32)
        y = b.Relu(b.Conv(y, w, strides=(1, 1), pads=(k // 2,) * 4, dilations=(1, 1)))
    y = b.MaxPool(y, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1))
    y = b.Reshape(y, np.array([1, -1]))
    y = b.Softmax(b.MatMul(y, (rng.standard_normal((2400, 10)) / 50).astype(np.float32)), axis=1)
    graph.outputs = [y]
    return encode(model_of(graph))


def integers() -> bytes:
    """Sums of 8-bit integers, by weights that each kernel keeps in a form of its own."""
    rng = np.random.default_rng(6)
    graph = Graph()
    b = Builder(graph)
    x = b.Cast(graph.add_param(f32(1, 4, 9, 9)), to=DType.I8)
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    w = rng.integers(-9, 9, (8, 4, 3, 3), np.int8)
    y = b.Cast(b.ConvInteger(x, w, **window), to=DType.I8)
    y = b.Cast(b.ConvInteger(y, rng.integers(-9, 9, (8, 1, 3, 3), np.int8), **window, group=8), to=DType.I8)
    y = b.Reshape(y, np.array([8, 81]))
    graph.outputs = [b.MatMulInteger(y, rng.integers(-9, 9, (81, 5), np.int8))]
    return encode(model_of(graph))


def recurrent() -> bytes:
    rng = np.random.default_rng(5)
    graph = Graph()
    x = graph.add_param(f32(7, 2, 8))
    w, r = ((rng.standard_normal(s) / 4).astype(np.float32) for s in ((1, 64, 8), (1, 64, 16)))
    graph.outputs = [Builder(graph).LSTM(x, w, r, hidden=16)[0]]
    return encode(model_of(graph))


def found() -> bytes:
    """Shapes that only the run finds, in two stages."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32(9, 9))
    places = b.NonZero(b.Relu(x))
    graph.outputs = [b.Gather(b.Exp(x), b.Unique(b.Reshape(places, np.array([-1])))[0], axis=0), places]
    return encode(model_of(graph))


def streaming() -> bytes:
    """A state, which each run changes."""
    graph = Graph()
    x, total = graph.add_param(f32(3), "x"), graph.add_param(f32(3), "total")
    b = Builder(graph)
    new = b.Add(total, x)
    graph.outputs = [b.Mul(new, np.float32(2)), new]
    states = [State("total", "total_out", np.zeros(3, np.float32))]
    model = Model(
        graph, [(p.name, p.type) for p in graph.params], [("y", x.type), ("total_out", x.type)], states=states
    )
    optimize(model, 2)
    return encode(model)


def random_inputs(file: bytes | Path, seed: int = 0, size: int = 2) -> list[Array]:
    session = minnow.load(file)
    rng = np.random.default_rng(seed)
    symbols = {d: size for info in session.inputs for d in info.shape or () if isinstance(d, str)}
    return list(feeds(session, rng, symbols).values())


def small_cases() -> list[bytes]:
    files = [
        layers(1),
        integers(),
        recurrent(),
        found(),
        streaming(),
        looped(concat([2], 3), tensors=["same"], outs=[1, 3], trips=20),
    ]
    cases = [case_bytes(file, random_inputs(file)) for file in files]
    for seed in (3, 17, 39, 41, 58, 77, 101):
        grower = grown(seed, 8 + seed % 12)
        cases.append(case_bytes(encode(model_of(grower.graph)), grower.inputs))
    return cases


def shared_cases(folder: Path) -> list[bytes]:
    """Models of others, converted; those that are there."""
    cases = []
    for path in [ROOT / "examples/digits/digits.onnx", *sorted(SHARED.rglob("*.onnx"))]:
        output = folder / f"{len(cases)}.mnn"
        try:
            minnow.convert(path, output=output, verify=False)
            cases.append(case_bytes(output.read_bytes(), random_inputs(output)))
        except minnow.errors.MinnowError as e:
            sys.stdout.write(f"{path}: {e}\n")
    return cases
