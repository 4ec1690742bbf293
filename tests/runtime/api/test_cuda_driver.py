"""The engine beside another user of the same GPU, who knows the driver only: memory is shared by address, and a kernel
of the other one that fails takes the device away from both."""

from __future__ import annotations

import ctypes as c
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from capi import Options, Tensor, tensor
from engine_oracle import f32, model_of, normal

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import DeviceError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

X = normal(np.random.default_rng(7), 5, 7)

# The kernel ends in a trap: the driver refuses all that comes after it in the process.
LOST = """
import ctypes as c, os, sys
import numpy as np
os.environ["MINNOW_PLACEMENT"] = "greedy"  # else so small a model runs on the CPU
import minnow
from minnow.schema.errors import DeviceError

data, x = open(sys.argv[1], "rb").read(), np.load(sys.argv[2])
session = minnow.load(data, device="cuda")
for _ in range(3):
    before = session.run({"in0": x})["out0"]
driver = c.CDLL("libcuda.so.1")
TEXT = b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry end() { trap; }\\0"
context, module, kernel = c.c_void_p(), c.c_void_p(), c.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuModuleLoadData(c.byref(module), TEXT) == 0
assert driver.cuModuleGetFunction(c.byref(kernel), module, b"end") == 0
assert driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
assert driver.cuCtxSynchronize() != 0
for attempt in range(2):
    try:
        session.run({"in0": x})
        print("no error")
    except DeviceError as error:
        print("DeviceError:", error)
try:
    minnow.load(data, device="cuda").run({"in0": x})
    print("no error")
except DeviceError as error:
    print("DeviceError:", error)
del session
own = minnow.load(data).run({"in0": x})["out0"]
print("close" if np.allclose(own, before, rtol=1e-4) else "differs")
"""


def model() -> bytes:
    graph = Graph()
    graph.outputs = [Builder(graph).Softmax(graph.add_param(f32("n", 7)), axis=1)]
    return encode(model_of(graph))


@pytest.fixture
def on_cuda() -> None:
    try:
        minnow.load(model(), device="cuda")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def driver(on_cuda: None) -> Iterator[c.CDLL]:
    library = c.CDLL("libcuda.so.1")
    context = c.c_void_p()
    assert library.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
    assert library.cuCtxSetCurrent(context) == 0
    yield library
    assert library.cuDevicePrimaryCtxRelease_v2(0) == 0


def test_the_c_api_takes_and_gives_addresses_of_the_device(driver: c.CDLL) -> None:
    library = c.CDLL(_engine.__file__)
    data, at = model(), c.c_void_p()
    loaded, session = c.c_void_p(), c.c_void_p()
    assert library.minnow_load_memory(data, c.c_size_t(len(data)), c.byref(loaded)) == 0
    assert library.minnow_create_session(loaded, c.byref(Options(device=b"cuda")), c.byref(session)) == 0
    library.minnow_free_model(loaded)
    assert library.minnow_set_device_outputs(session, 1) == 0
    assert driver.cuMemAlloc_v2(c.byref(at), c.c_size_t(X.nbytes)) == 0
    for factor in (1, 2, 3, 4, 5):  # as it is, tuned, recorded, replayed
        x = X * np.float32(factor)
        assert driver.cuMemcpyHtoD_v2(at, x.ctypes.data_as(c.c_void_p), c.c_size_t(x.nbytes)) == 0
        given = tensor(x)
        given.data = at.value
        out = (Tensor * 1)()
        assert library.minnow_run(session, c.byref(given), c.c_size_t(1), out, c.c_size_t(1)) == 0
        y = np.empty_like(x)
        assert (out[0].rank, tuple(out[0].shape[:2])) == (2, x.shape)
        # An address of the host is refused by this function.
        assert driver.cuMemcpyDtoH_v2(y.ctypes.data_as(c.c_void_p), c.c_void_p(out[0].data), c.c_size_t(y.nbytes)) == 0
        np.testing.assert_allclose(y, minnow.load(data).run({"in0": x})["out0"], rtol=1e-4)
    assert library.minnow_set_device_outputs(session, 0) == 0
    assert library.minnow_run(session, c.byref(given), c.c_size_t(1), out, c.c_size_t(1)) == 0
    assert c.string_at(out[0].data, y.nbytes) == y.tobytes()
    library.minnow_free_session(session)
    assert driver.cuMemFree_v2(at) == 0


@pytest.mark.usefixtures("on_cuda")
def test_a_lost_device_is_an_error_and_the_process_goes_on(tmp_path) -> None:
    (tmp_path / "m.mnn").write_bytes(model())
    np.save(tmp_path / "x.npy", X)
    arguments = [sys.executable, "-c", LOST, str(tmp_path / "m.mnn"), str(tmp_path / "x.npy")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in lines] == ["DeviceError"] * 3 + ["close"], lines
