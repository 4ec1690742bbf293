"""Packed weights: shared by sessions, kept in a file beside the model, and never a reason for other numbers."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from engine_oracle import f32, model_of, normal

import minnow
from minnow.runtime import _engine
from minnow.schema.errors import UsageError, WriteError
from minnow.schema.ir import Graph
from minnow.schema.mnn import encode, save
from minnow.schema.ops import Builder

SUFFIX = ".packed"
CONV = {"strides": (1, 1), "dilations": (1, 1)}


def layers(seed: int | None = 0) -> Graph:
    """Every kernel that packs: convolutions of each scheme, a transposed one, products, a recurrent layer.

    Without a seed, the weights are the same wherever they are made.
    """
    rng = np.random.default_rng(seed)
    graph = Graph()
    x, rows = graph.add_param(f32(1, 19, 14, 14)), graph.add_param(f32("n", 37))
    b = Builder(graph)

    def weights(*shape: int) -> np.ndarray:
        if seed is None:
            return ((np.arange(np.prod(shape)) * 7919 % 251 - 125) / 1024).astype(np.float32).reshape(shape)
        return (normal(rng, *shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    y = b.Relu(b.Conv(x, weights(64, 19, 1, 1), weights(64), pads=(0,) * 4, **CONV))
    y = b.Relu(b.Conv(y, weights(64, 64, 3, 3), weights(64), pads=(1,) * 4, **CONV))
    y = b.Conv(y, weights(64, 1, 3, 3), weights(64), pads=(1,) * 4, group=64, **CONV)
    y = b.Conv(y, weights(33, 64, 5, 5), pads=(2,) * 4, **CONV)
    up = b.ConvTranspose(
        y, weights(33, 21, 3, 3), pads=(1,) * 4, strides=(2, 2), dilations=(1, 1), output_padding=(0, 0)
    )
    z = b.MatMul(rows, weights(37, 51))
    z = b.Linear(z, weights(29, 51), weights(29))
    steps = b.Reshape(z, np.array([-1, 1, 29]))
    hidden = b.LSTM(steps, weights(1, 68, 29), weights(1, 68, 17), weights(1, 136), hidden=17, n_outputs=3)[0]
    graph.outputs = [up, z, hidden]
    return graph


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"in0": normal(rng, 1, 19, 14, 14), "in1": normal(rng, 5, 37)}


def bits(results: dict[str, np.ndarray]) -> list[bytes]:
    return [a.tobytes() for a in results.values()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "m.mnn"
    file.write_bytes(encode(model_of(layers())))
    return file


@pytest.fixture
def packed(path: Path) -> Path:
    session = minnow.load(path, threads=1)
    session.run(inputs())
    session.write_packed()
    return path.with_name(path.name + SUFFIX)


def test_sessions_of_a_model_share_and_agree(path):
    model = minnow.Model(path)
    first = model.session(1)
    want = bits(first.run(inputs()))
    packed = first.stats["packed_bytes"]
    assert packed > 4 * 64 * 64 * 9
    for threads in (1, 2, 3):
        session = model.session(threads)
        assert bits(session.run(inputs())) == want
        assert session.stats["packed_bytes"] == packed


def test_another_precision_packs_for_itself(path):
    model = minnow.Model(path)
    high, low = model.session(1), model.session(1, "low")
    want, near = high.run(inputs()), low.run(inputs())
    for a, b in zip(want.values(), near.values(), strict=True):
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(a).max())
    assert bits(high.run(inputs())) == bits(want)


def test_sessions_can_be_made_at_the_same_time(path):
    want = bits(minnow.Model(path).session(1).run(inputs()))
    model, results = minnow.Model(path), []
    threads = [threading.Thread(target=lambda: results.append(bits(model.session(1).run(inputs())))) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [want] * 6


def test_a_file_in_use_is_the_same_model_until_it_changes(path):
    os.utime(path, (1e9, 1e9))
    first = minnow.load(path, threads=1)
    want = bits(first.run(inputs()))
    before = first.stats["packed_bytes"]
    second = minnow.load(path, threads=2)
    assert bits(second.run(inputs())) == want
    assert second.stats["packed_bytes"] == before
    other = path.with_name("other")
    other.write_bytes(encode(model_of(layers(1))))
    os.replace(other, path)
    assert bits(minnow.load(path, threads=1).run(inputs())) != want
    assert bits(first.run(inputs())) == want


def test_packed_weights_in_a_file_give_the_same_bits(path, packed):
    plain = path.with_name("plain.mnn")
    plain.write_bytes(path.read_bytes())
    want = minnow.load(plain)
    results = bits(want.run(inputs()))
    for threads in (1, 2):
        session = minnow.Model(path).session(threads)
        assert bits(session.run(inputs())) == results
        assert session.stats["packed_bytes"] == 0
        assert session.stats["mapped_bytes"] == want.stats["packed_bytes"]


def test_weights_that_the_file_lacks_are_packed(path):
    session = minnow.load(path)  # nothing is planned yet: the sizes of an input are open
    session.write_packed()
    again = minnow.load(path)
    again.run(inputs())
    assert again.stats["mapped_bytes"] == 0
    assert again.stats["packed_bytes"] > 0


def test_it_belongs_to_one_model(path, packed):
    for other in (layers(1), layers()):
        path.write_bytes(encode(model_of(other)))
        session = minnow.load(path)
        session.run(inputs())
    assert session.stats["packed_bytes"] == 0  # the same bytes again
    data = bytearray(path.read_bytes())
    data[len(data) // 8 * 4] ^= 1  # the last bit of one weight
    path.write_bytes(data)
    session = minnow.load(path)
    session.run(inputs())
    assert session.stats["mapped_bytes"] == 0


def test_side_files_count_as_the_model(tmp_path):
    path = tmp_path / "m.mnn"
    save(model_of(layers()), path, side_file=True)
    session = minnow.load(path, threads=1)
    want = bits(session.run(inputs()))
    session.write_packed()
    mapped = minnow.load(path)
    assert bits(mapped.run(inputs())) == want
    assert mapped.stats["mapped_bytes"] > 0
    side = path.with_name("m.mnn.weight")
    data = bytearray(side.read_bytes())
    data[100] ^= 1
    side.unlink()
    side.write_bytes(data)
    other = minnow.load(path)
    other.run(inputs())
    assert other.stats["mapped_bytes"] == 0


WORKER = """
import sys, pathlib, numpy as np, minnow
path, packed, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(seed)
with np.load(sys.argv[4]) as file:
    given = dict(file)
whole = packed.read_bytes()
want = [a.tobytes() for a in minnow.load(path).run(given).values()]
index = 64 + int.from_bytes(whole[40:48], "little")
for i in range(60):
    data = bytearray(whole)
    kind = i % 4
    if kind == 0:
        data = data[: int(rng.integers(len(data)))]
    elif kind == 1:
        data += bytes(int(rng.integers(1, 9)))
    else:
        for _ in range(int(rng.integers(1, 5))):
            data[int(rng.integers(index if kind == 2 else 64))] ^= 1 << int(rng.integers(8))
    packed.unlink()
    packed.write_bytes(data)
    session = minnow.load(path)
    assert [a.tobytes() for a in session.run(given).values()] == want, i
    assert session.stats["mapped_bytes"] == 0, i
for at in range(index // 4096 * 4096, len(whole), 4096):  # a page that was never written
    data = bytearray(whole)
    first, last = max(at, index), min(at + 4096, len(whole))
    data[first:last] = bytes(last - first)
    packed.unlink()
    packed.write_bytes(data)
    session = minnow.load(path)
    assert [a.tobytes() for a in session.run(given).values()] == want, at
    assert session.stats["packed_bytes"] > 0 or not any(whole[first:last]), at
print("fine")
"""


@pytest.mark.parametrize("seed", range(2))
def test_damage_is_found_and_harmless(path, packed, seed, tmp_path):
    np.savez(tmp_path / "in.npz", **inputs())
    done = subprocess.run(
        [sys.executable, "-c", WORKER, path, packed, str(seed), tmp_path / "in.npz"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_every_byte_of_an_index_that_claims_to_be_sound_is_checked(path, packed):
    """Hashes are no secret: rows with any offset and size, under hashes that fit."""
    whole = packed.read_bytes()
    index = int.from_bytes(whole[40:48], "little")
    row = 4 + int.from_bytes(whole[64:68], "little")
    want = bits(minnow.load(path).run(inputs()))
    for offset in (0, 64, 1, len(whole), len(whole) - 64, 2**63 - 64, 2**64 - 64):
        data = bytearray(whole)
        data[64 + row : 72 + row] = offset.to_bytes(8, "little")
        data[48:56] = _engine.hash_bytes(bytes(data[64 : 64 + index])).to_bytes(8, "little")
        data[56:64] = _engine.hash_bytes(bytes(data[:56])).to_bytes(8, "little")
        packed.unlink()
        packed.write_bytes(data)
        assert bits(minnow.load(path).run(inputs())) == want


def test_another_instruction_set_ignores_it(path, packed):
    source = (
        "import sys, numpy as np, minnow\n"
        "s = minnow.load(sys.argv[1])\nfile = np.load(sys.argv[2])\n"
        "s.run(dict(file)); print(s.stats['mapped_bytes'], s.stats['packed_bytes'] > 0)"
    )
    np.savez(path.with_name("in.npz"), **inputs())
    others = [isa for isa in ("scalar", "sse4", "avx2", "avx512") if isa != _engine.isa()]
    ran = 0
    for isa in others:
        done = subprocess.run(
            [sys.executable, "-c", source, path, path.with_name("in.npz")],
            capture_output=True, text=True, env=os.environ | {"MINNOW_ISA": isa},
        )  # fmt: skip
        if done.returncode == 0:
            assert done.stdout == "0 True\n"
            ran += 1
    assert ran > 0


# By kFormat of runtime/src/model/packed_file.cpp and instruction set: what `layers(None)` is packed to.
DIGESTS = {
    (2, "avx512"): "6008759fa2fc0377",
    (2, "avx2"): "770869579151e6ea",
    (2, "sse4"): "c6c32f36abee85b9",
}


@pytest.mark.parametrize("isa", ["avx512", "avx2", "sse4"])
def test_another_packing_is_another_format(isa, tmp_path):
    """A file from before a kernel packs differently must not be taken for one of today."""
    path = tmp_path / "m.mnn"
    path.write_bytes(encode(model_of(layers(None))))
    np.savez(tmp_path / "in.npz", **inputs())
    source = (
        "import sys, numpy as np, minnow\n"
        "s = minnow.load(sys.argv[1], threads=1)\ns.run(dict(np.load(sys.argv[2])))\ns.write_packed()"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, path, tmp_path / "in.npz"],
        capture_output=True, text=True, env=os.environ | {"MINNOW_ISA": isa, "MINNOW_CALIBRATION": "off"},
    )  # fmt: skip
    if "MINNOW_ISA" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stderr
    data = path.with_name(path.name + SUFFIX).read_bytes()
    payload = -(-(64 + int.from_bytes(data[40:48], "little")) // 64) * 64
    digest = hashlib.sha256(data[payload:]).hexdigest()[:16]
    kernels = (Path(__file__).parents[3] / "runtime/src/model/packed_file.cpp").read_text()
    number = int(re.search(r"kFormat = (\d+);", kernels)[1])
    assert DIGESTS.get((number, isa)) == digest, (
        f"kernels pack in another way than format {number}: raise kFormat, and record {digest} for it and {isa}"
    )


def test_it_is_written_as_a_whole_or_not(path):
    session = minnow.load(path)
    session.run(inputs())
    with pytest.raises(UsageError, match="cannot be written"):
        session.write_packed(path.parent / "none" / "x.packed")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    packed = path.with_name(path.name + SUFFIX)
    os.mkfifo(packed)
    with pytest.raises(WriteError, match="not a regular file"):
        session.write_packed()
    assert packed.is_fifo()
    packed.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as a full disk
    try:
        with pytest.raises(WriteError, match="File too large"):
            session.write_packed()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with pytest.raises(UsageError, match="from memory"):
        minnow.load(path.read_bytes()).write_packed()


@pytest.mark.parametrize("links", [["real"], ["second", "real"], ["none/../real"]])
def test_a_link_stays_and_its_target_is_written(path, tmp_path, links):
    session = minnow.load(path)
    session.run(inputs())
    packed = path.with_name(path.name + SUFFIX)
    (tmp_path / "none").mkdir(exist_ok=True)
    for name, target in zip([packed, *(tmp_path / n for n in links[:-1])], links, strict=True):
        name.symlink_to(tmp_path / target if name == packed else target)
    session.write_packed()
    assert packed.is_symlink()
    assert (tmp_path / "real").stat().st_size > 100
    assert minnow.load(path).run(inputs()).keys()
