"""Weights in a file of their own: written, read back, found missing or damaged."""

from __future__ import annotations

import numpy as np
import pytest

from minnow.runtime.session import load
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import DType, Graph, LazyBlob, Model, TensorType, Value
from minnow.schema.mnn import decode, encode, save, side_path, wire
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate


def model() -> Model:
    """Convolutions with f32 and f16 weights, a grouped one, with and without bias, constants of several types."""
    rng = np.random.default_rng(0)
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F32, (1, 8, 5, 7)), "x")
    b = Builder(graph)
    attrs = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    y = b.Conv(x, rng.standard_normal((33, 8, 3, 3)).astype(np.float32), rng.random(33).astype(np.float32), **attrs)
    y = b.Conv(y, rng.standard_normal((16, 33, 3, 3)).astype(np.float16), rng.random(16).astype(np.float32), **attrs)
    y = b.Conv(y, rng.standard_normal((64, 2, 3, 3)).astype(np.float32), group=8, **attrs)
    y = b.Add(y, rng.standard_normal((64, 5, 7)).astype(np.float32))
    z = b.Gather(rng.integers(-9, 9, (300, 5)).astype(np.int32), b.Cast(b.Shape(y), to=DType.I32), axis=0)
    graph.outputs = [y, z]
    made = Model(graph)
    made.inputs = [("x", x.type)]
    made.outputs = [("y", y.type), ("z", z.type)]
    return made


def test_the_model_is_the_same_with_its_weights_outside(tmp_path):
    source = model()
    path = tmp_path / "m.mnn"
    written = save(source, path, side_file=True)
    assert written == path.stat().st_size + side_path(path).stat().st_size
    assert side_path(path).name == "m.mnn.weight"
    assert path.stat().st_size < 4000 < side_path(path).stat().st_size
    x = np.random.default_rng(1).standard_normal((1, 8, 5, 7)).astype(np.float32)
    inside = load(encode(source)).run({"x": x})
    outside = load(path).run({"x": x})
    for name in ("y", "z"):
        np.testing.assert_array_equal(inside[name], outside[name])
    again = decode(path.read_bytes(), side_path(path))
    for want, got in zip(evaluate(source.graph, [x]), evaluate(again.graph, [x]), strict=True):
        np.testing.assert_array_equal(want, got)


def test_what_is_read_can_be_written_again(tmp_path):
    first, second = tmp_path / "a.mnn", tmp_path / "b.mnn"
    save(model(), first, side_file=True)
    save(decode(first.read_bytes(), side_path(first)), second, side_file=True)
    assert first.read_bytes() == second.read_bytes()
    assert side_path(first).read_bytes() == side_path(second).read_bytes()


def test_places_are_aligned_and_follow_each_other(tmp_path):
    path = tmp_path / "m.mnn"
    save(model(), path, side_file=True)
    end = 0
    for op in wire.read(path.read_bytes())["oplists"]:
        offset, *sizes = op.get("main", {}).get("external", [0])
        if sizes:
            assert offset % 64 == 0
            assert end <= offset < end + 64
            end = offset + sum(sizes)
    assert end == side_path(path).stat().st_size


def test_other_weights_give_another_identity(tmp_path):
    identities = []
    for scale in (1, 2):
        changed = model()
        conv = next(iter(changed.graph))
        conv.set_input(1, Value.constant(conv.input(1).array * np.float32(scale)))
        save(changed, tmp_path / "m.mnn", side_file=True)
        identities.append(wire.read((tmp_path / "m.mnn").read_bytes())["mnn_uuid"])
    assert identities[0] != identities[1]


@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
def test_a_missing_or_short_side_file_is_an_error(damage, tmp_path):
    path = tmp_path / "m.mnn"
    save(model(), path, side_file=True)
    side = side_path(path)
    if damage == "missing":
        side.unlink()
    else:
        side.write_bytes(side.read_bytes()[:-1] if damage == "short" else b"")
    with pytest.raises(FormatError):
        load(path)
    with pytest.raises(FormatError):
        decode(path.read_bytes(), side)


def test_bytes_alone_cannot_have_a_side_file(tmp_path):
    save(model(), tmp_path / "m.mnn", side_file=True)
    with pytest.raises(FormatError, match="companion weights file"):
        decode((tmp_path / "m.mnn").read_bytes())


@pytest.mark.parametrize("external", [[-64, 64], [0, -1], [2**62, 2**62], [0, 3, 4], [0]])
def test_impossible_places_are_errors(external, tmp_path):
    path = tmp_path / "m.mnn"
    save(model(), path, side_file=True)
    net = wire.read(path.read_bytes())
    for op in net["oplists"]:
        if "external" in op.get("main", {}):
            op["main"]["external"] = external
    path.write_bytes(wire.write(net))
    if len(external) > 1:
        with pytest.raises(FormatError):
            decode(path.read_bytes(), side_path(path))
    with pytest.raises(FormatError):
        load(path)


def test_a_model_too_large_for_one_file_asks_for_a_side_file(tmp_path):
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F32, (1,)), "x")
    # Never computed: what it says of its size is enough.
    big = Value.constant(LazyBlob(lambda: np.zeros(0), DType.F32, (2**30,)))
    graph.outputs = [Builder(graph).Add(x, big)]
    large = Model(graph)
    large.inputs, large.outputs = [("x", x.type)], [("y", graph.outputs[0].type)]
    with pytest.raises(UnsupportedError, match="companion weights file"):
        save(large, tmp_path / "m.mnn", side_file=False)
