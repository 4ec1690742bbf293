"""Arrays in the memory of a device: which are taken, which are refused, and what comes back."""

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.schema.errors import DeviceError, UsageError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

RNG = np.random.default_rng(5)
X = normal(RNG, 2, 3)


class Elsewhere:
    """An array of another library, on a device."""

    dtype = "torch.float32"

    def __init__(self, kind: int, array: np.ndarray = X) -> None:
        self.kind, self.array = kind, array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, *, stream: int | None = None) -> object:
        return self.array.__dlpack__()

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


def model() -> bytes:
    graph = Graph("m")
    graph.outputs = [Builder(graph).Softmax(graph.add_param(f32(2, 3)), axis=1)]
    return encode(model_of(graph))


def test_arrays_on_another_device_are_refused() -> None:
    session = minnow.load(model())
    with pytest.raises(UsageError, match="'in0' lies on cuda:0, and the session runs on cpu") as error:
        session.run({"in0": Elsewhere(2)})
    assert 'device="cuda:0"' in error.value.hint
    want = session.run({"in0": X})["out0"]
    assert np.array_equal(session.run({"in0": Elsewhere(1)})["out0"], want)  # of another library, but on the host


def test_outputs_on_the_host_alone() -> None:
    session = minnow.load(model())
    with pytest.raises(UsageError, match="device_outputs: the session runs on cpu"):
        session.run({"in0": X}, device_outputs=True)
    with pytest.raises(UsageError, match="CUDA device only; the session runs on cpu"):
        session.to_device({"in0": X})


def test_arrays_stay_on_the_device() -> None:
    try:
        session = minnow.load(model(), device="cuda")
    except DeviceError as error:
        pytest.skip(str(error))
    want = minnow.load(model()).run({"in0": X})["out0"]
    given = session.to_device({"in0": X})
    assert np.array_equal(given["in0"].numpy(), X)
    for _ in range(4):  # as it is, tuned, recorded, replayed
        y = session.run(given, device_outputs=True)["out0"]
        assert (y.dtype, y.shape, y.device) == ("float32", (2, 3), "cuda:0")
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    again = session.run({"in0": y})["out0"]  # what a run has given is what the next one takes
    np.testing.assert_allclose(again, minnow.load(model()).run({"in0": want})["out0"], rtol=1e-5)
    with pytest.raises(UsageError, match="is float16, the model wants float32"):
        session.run({"in0": type(y)("float16", y.shape, y.device, y._memory, y._session)})
