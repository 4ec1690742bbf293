"""Runs from and to memory that stays the same: `Session.bind`."""

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.schema.errors import DeviceError, UsageError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

RNG = np.random.default_rng(6)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def model() -> bytes:
    graph = Graph("m")
    graph.outputs = [Builder(graph).Softmax(graph.add_param(f32(2, 3)), axis=1)]
    return encode(model_of(graph))


def test_runs_read_and_write_the_same_memory() -> None:
    x = normal(RNG, 2, 3)
    bound = minnow.load(model()).bind({"in0": x})
    y = bound.run()["out0"]
    np.testing.assert_allclose(y, softmax(x), rtol=1e-6)
    x[:] = normal(RNG, 2, 3)
    assert bound.run()["out0"] is y
    np.testing.assert_allclose(y, softmax(x), rtol=1e-6)


def test_outputs_outlive_the_session() -> None:
    x = normal(RNG, 2, 3)
    y = minnow.load(model()).bind({"in0": x}).run()["out0"]
    np.testing.assert_allclose(y, softmax(x), rtol=1e-6)


@pytest.mark.parametrize(
    "x", [[[1.0] * 3] * 2, np.ones((2, 3)), np.ones((3, 2), np.float32).T, np.ones((2, 6), np.float32)[:, ::2]]
)
def test_what_would_be_copied_is_refused(x: object) -> None:
    with pytest.raises(UsageError, match="'in0' cannot be read in place") as error:
        minnow.load(model()).bind({"in0": x})
    assert "float32[2, 3]" in error.value.hint


def test_outputs_on_a_device_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="device_outputs: the session runs on cpu"):
        minnow.load(model()).bind({"in0": normal(RNG, 2, 3)}, device_outputs=True)


def test_an_output_that_changes_its_shape() -> None:
    graph = Graph("m")
    graph.outputs = [Builder(graph).NonZero(graph.add_param(f32(4)))]
    x = np.array([1, 0, 2, 0], np.float32)
    bound = minnow.load(encode(model_of(graph))).bind({"in0": x})
    assert bound.run()["out0"].tolist() == [[0, 2]]
    x[1] = 1
    with pytest.raises(UsageError, match=r"output 'out0' is .*\[1,3\], and the memory for it .*\[1,2\]"):
        bound.run()
    x[1] = 0
    assert bound.run()["out0"].tolist() == [[0, 2]]


def test_runs_on_a_device_are_recorded_with_their_copies() -> None:
    try:
        session = minnow.load(model(), device="cuda", precision="low")
    except DeviceError as error:
        pytest.skip(str(error))
    inputs = [normal(RNG, 2, 3) for _ in range(6)]
    places = [session.to_device({"in0": x}) for x in inputs]
    for given, x in zip(places * 3, inputs * 3, strict=True):  # each is recorded, then replayed
        y = session.run(given, device_outputs=True)["out0"]
        np.testing.assert_allclose(y.numpy(), softmax(x), atol=2e-3)
    bounds = [(session.bind(given, device_outputs=True), x) for given, x in zip(places, inputs, strict=True)]
    for _ in range(4):
        for bound, x in bounds:
            np.testing.assert_allclose(bound.run()["out0"].numpy(), softmax(x), atol=2e-3)
