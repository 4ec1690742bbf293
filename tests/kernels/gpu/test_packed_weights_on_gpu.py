"""Packed weights in a GPU's memory come from the companion file, where it has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.schema.ir import Graph
from minnow.schema.mnn import save
from minnow.schema.ops import Builder
from tests.kernels.gpu.test_ops_on_gpu import DEVICES, is_there

RNG = np.random.default_rng(3)
X = normal(RNG, 5, 1, 29)


def recurrent() -> Graph:
    """What packs its weights on every kind of GPU."""
    graph, rng = Graph(), np.random.default_rng(4)
    weights = [normal(rng, *shape) / 8 for shape in ((1, 68, 29), (1, 68, 17), (1, 136))]
    b = Builder(graph)
    hidden = b.LSTM(graph.add_param(f32(5, 1, 29)), *(w.astype(np.float32) for w in weights), hidden=17, n_outputs=3)
    graph.outputs = [hidden[0]]
    return graph


@pytest.mark.parametrize("device", DEVICES)
def test_they_come_from_the_file(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there(device):
        pytest.skip(f"this machine has no {device}")
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")
    path, packed = tmp_path / "m.mnn", tmp_path / "m.mnn.packed"
    save(model_of(recurrent()), path)
    session = minnow.load(path, device=device)
    assert {row["device"].split(":")[0] for row in session.placement({"in0": X.shape})} == {device}
    want = session.run({"in0": X})["out0"]
    session.write_packed()
    written = packed.read_bytes()
    assert b"weights/" in written
    again = minnow.load(path, device=device)
    assert again.run({"in0": X})["out0"].tobytes() == want.tobytes()
    again.write_packed()  # what came from the file is written as what was packed
    assert packed.read_bytes() == written
