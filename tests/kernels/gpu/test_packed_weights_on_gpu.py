"""Packed weights in a GPU's memory come from the companion file, where it has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal
from gpu_drivers import full_name

import minnow
from minnow.runtime import _engine
from minnow.schema.ir import Graph
from minnow.schema.mnn import save
from minnow.schema.ops import Builder
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there

RNG = np.random.default_rng(3)
X = normal(RNG, 5, 1, 29)


def recurrent(seed: int = 4) -> Graph:
    """What packs its weights on every kind of GPU; the bias, which is not packed, is the same for all seeds."""
    graph, rng = Graph(), np.random.default_rng(seed)
    weights = [normal(rng, *shape) / 8 for shape in ((1, 68, 29), (1, 68, 17))]
    weights.append(normal(np.random.default_rng(4), 1, 136) / 8)
    b = Builder(graph)
    hidden = b.LSTM(graph.add_param(f32(5, 1, 29)), *(w.astype(np.float32) for w in weights), hidden=17, n_outputs=3)
    graph.outputs = [hidden[0]]
    return graph


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if not is_there(request.param):
        pytest.skip(f"this machine has no {request.param}")
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    return str(request.param)


def test_what_a_session_has_packed_is_written(device: str, tmp_path: Path) -> None:
    path, packed = tmp_path / "m.mnn", tmp_path / "m.mnn.packed"
    save(model_of(recurrent()), path)
    session = minnow.load(path, device=device)
    assert {row["device"] for row in session.placement({"in0": X.shape})} == {full_name(device)}
    want = session.run({"in0": X})["out0"]
    session.write_packed()
    written = packed.read_bytes()
    assert b"weights/" in written
    again = minnow.load(path, device=device)
    assert again.run({"in0": X})["out0"].tobytes() == want.tobytes()
    again.write_packed()  # what came from the file is written as what was packed
    assert packed.read_bytes() == written


def run(path: Path, device: str) -> bytes:
    return bytes(minnow.load(path, device=device).run({"in0": X})["out0"].tobytes())


def passed_off(other: bytes, own: bytes) -> bytes:
    """The companion file of another model, whose header names this one: packed_file.h describes it."""
    file = bytearray(other)
    file[16:32] = own[16:32]  # hash and size of the model
    file[56:64] = _engine.hash_bytes(bytes(file[:56])).to_bytes(8, "little")
    return bytes(file)


def test_a_session_computes_with_what_the_file_has(device: str, tmp_path: Path) -> None:
    paths = [tmp_path / "a.mnn", tmp_path / "b.mnn"]
    results, files = [], []
    for seed, path in enumerate(paths):
        save(model_of(recurrent(seed)), path)
        session = minnow.load(path, device=device)
        results.append(session.run({"in0": X})["out0"].tobytes())
        session.write_packed()
        files.append(Path(f"{path}.packed").read_bytes())
    assert results[0] != results[1]
    companion = Path(f"{paths[0]}.packed")
    del session
    companion.write_bytes(files[1])
    assert run(paths[0], device) == results[0]  # it is the file of another model, which is not used
    companion.write_bytes(passed_off(files[1], files[0]))
    assert run(paths[0], device) == results[1]
    companion.unlink()
    assert run(paths[0], device) == results[0]
