"""Weights that are not plain floats: the streams of IDSTQuan, 16-bit floats, and files beside the model."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from engine_oracle import normal
from wire_net import Net

import minnow
from minnow.schema.errors import FormatError, UsageError

RNG = np.random.default_rng(0)
SHAPE = (6, 4, 3, 3)  # of the weights
X = normal(RNG, 1, 4, 6, 5)


def conv(bias: np.ndarray | None = None, **main: Any) -> bytes:
    net = Net()
    net.input("x", X.shape)
    common = {"kernelX": 3, "kernelY": 3, "outputCount": 6, "inputCount": 4, "pads": [1, 1, 1, 1]}
    more = {"bias": np.zeros(6, np.float32) if bias is None else bias}
    net.op(
        "Convolution", ["x"], ["y"], "Convolution2D", {"common": common, **({} if "external" in main else more), **main}
    )
    return net.bytes("y")


def convolve(w: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64)) + np.reshape(bias, (1, -1, 1, 1))


def check(model: Any, w: np.ndarray, bias: np.ndarray | float = 0.0) -> None:
    y = minnow.load(model).run({"x": X})["y"]
    np.testing.assert_allclose(y, convolve(w, bias), rtol=1e-4, atol=1e-4)


def bits_of(values: np.ndarray, bits: int) -> bytes:
    """The numbers as a stream of bits, most significant first."""
    rows = (values.reshape(-1, 1) >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(rows.astype(np.uint8).reshape(-1)).tobytes()


def head(rows: int, length: int, wide: bool) -> bytes:
    return bytes([2]) + np.array([rows, length], np.uint32 if wide else np.uint16).tobytes()


def stream(q: np.ndarray, bits: int, wide: bool) -> bytes:
    """Type 1: shape, table, indices. `q` is [rows, length] in -2^(bits-1)..2^(bits-1)-1."""
    half = 1 << (bits - 1)
    table = np.arange(-half, half).astype(np.int8)
    size = bytes([len(table) % 256])
    return head(*q.shape, wide) + size + table.tobytes() + bits_of(q + half, bits)


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_dense_stream(bits, asymmetric, half, blocks):
    rows = SHAPE[0] * blocks
    least = -(1 << (bits - 1))
    q = RNG.integers(least, -least, (rows, np.prod(SHAPE) // rows))
    scale = RNG.uniform(0.01, 0.1, rows).astype(np.float16).astype(np.float32)
    low = RNG.uniform(-1, 0, rows).astype(np.float16).astype(np.float32)
    alpha = np.stack([low, scale], 1).reshape(-1) if asymmetric else scale
    w = (q - least) * scale[:, None] + low[:, None] if asymmetric else q * scale[:, None]
    table = {
        "type": 1,
        "buffer": np.frombuffer(stream(q, bits, wide := bits % 2 == 0), np.int8),
        "aMaxOrBits": bits,
        "aMin": least if asymmetric else 0,
        "readType": rows if asymmetric else 0,
        "quantScale": 1.0,
        "shapeInt32": wide,
    }
    table |= (
        {"alphaFp16": alpha.astype(np.float16).view(np.uint16), "scaleStorage": "FP16"} if half else {"alpha": alpha}
    )
    check(conv(quanParameter=table), w.reshape(SHAPE))


@pytest.mark.parametrize("step_bits", [3, 8])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_sparse_stream(step_bits, asymmetric):
    """Type 2: distances between the numbers that are listed; the others are zero, or nearly."""
    rows, length, bits = SHAPE[0], 36, 4
    places, at = [], 0
    while (at := at + int(RNG.integers(1, 1 << step_bits))) < rows * length:
        places.append(at)
    steps = np.diff([0, *places])
    q = RNG.integers(-8, 8, len(places))
    scale, low = RNG.uniform(0.05, 0.1, rows), np.full(rows, -0.4)
    full = np.zeros((rows, length)) if not asymmetric else np.repeat(np.round(-low / scale)[:, None] - 8, length, 1)
    full.reshape(-1)[places] = q
    w = (full + 8) * scale[:, None] + low[:, None] if asymmetric else full * scale[:, None]
    table = np.arange(-8, 8).astype(np.int8).tobytes()
    data = head(rows, length, False) + np.uint32(len(places)).tobytes() + bytes([step_bits]) + bits_of(steps, step_bits)
    data += bytes([16]) + table + bits_of(q + 8, bits)
    alpha = np.stack([low, scale], 1).reshape(-1) if asymmetric else scale
    quan = {"type": 2, "buffer": np.frombuffer(data, np.int8), "alpha": alpha.astype(np.float32), "quantScale": 1.0}
    check(conv(quanParameter=quan | ({"readType": rows, "aMin": -8} if asymmetric else {})), w.reshape(SHAPE))


def test_halves():
    w = (normal(RNG, *SHAPE) / 4).astype(np.float16)
    check(conv(quanParameter={"type": 3, "buffer": w.reshape(-1).view(np.int8)}), w.astype(np.float32))


def test_plain_bytes():
    q = RNG.integers(-128, 128, (6, 36))
    low, scale = RNG.uniform(-1, 0, 6).astype(np.float32), RNG.uniform(0.005, 0.01, 6).astype(np.float32)
    quan = {"type": 4, "buffer": q.astype(np.int8).reshape(-1), "alpha": np.stack([low, scale], 1).reshape(-1)}
    w = (q + 128) * scale[:, None] + low[:, None]
    check(conv(quanParameter=quan | {"readType": 6, "aMin": -128, "quantScale": 1.0}), w.reshape(SHAPE))


def test_sparse_floats():
    places = np.sort(RNG.choice(np.prod(SHAPE), 50, replace=False)).astype(np.uint32)
    values = normal(RNG, 50)
    w = np.zeros(np.prod(SHAPE), np.float32)
    w[places] = values
    quan = {"type": 0, "index": places, "alpha": values, "weightSize": w.size}
    check(conv(quanParameter=quan), w.reshape(SHAPE))


def broken(**changes: Any) -> bytes:
    q = RNG.integers(-8, 8, (6, 36))
    quan = {
        "type": 1,
        "buffer": np.frombuffer(stream(q, 4, False), np.int8),
        "alpha": normal(RNG, 6),
        "quantScale": 1.0,
    }
    return conv(quanParameter={k: v(quan[k]) if callable(v) else v for k, v in (quan | changes).items()})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"buffer": lambda b: b[:-1]}, "cut off"),
        ({"buffer": lambda b: b[:3]}, "cut off"),
        ({"buffer": lambda b: b[:0]}, "cut off"),
        ({"alpha": lambda a: a[:-1]}, "20 bytes of scales for 6 rows"),
        ({"readType": 6}, "24 bytes of scales for 6 rows"),
        ({"shapeInt32": True}, "weights"),
        ({"type": 3}, "16-bit weights|do not fit"),
        ({"type": 4}, "8-bit weights|do not fit"),
        (
            {"type": 0, "index": np.array([216], np.uint32), "alpha": np.ones(1, np.float32), "weightSize": 216},
            "out of range",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, says):
    with pytest.raises(FormatError, match=says):
        minnow.load(broken(**changes))


# ---- weights beside the model


def write(folder: Any, model: bytes, *parts: np.ndarray, name: str = "m.mnn.weight", skip: int = 0) -> Any:
    path = folder / "m.mnn"
    path.write_bytes(model)
    (folder / name).write_bytes(b"\7" * skip + b"".join(p.tobytes() for p in parts))
    return path


@pytest.mark.parametrize("skip", [0, 4, 1])  # 1: numbers that are not aligned
def test_floats_beside_the_model(tmp_path, skip):
    w, bias = normal(RNG, *SHAPE), normal(RNG, 6)
    check(write(tmp_path, conv(external=[skip, w.nbytes, bias.nbytes]), w, bias, skip=skip), w, bias)


def test_a_stream_beside_the_model(tmp_path):
    q = RNG.integers(-8, 8, (6, 36))
    scale, bias = RNG.uniform(0.1, 0.2, 6).astype(np.float32), normal(RNG, 6)
    buffer = np.frombuffer(stream(q, 4, False), np.int8)
    model = conv(quanParameter={"type": 1, "quantScale": 1.0}, external=[0, buffer.size, scale.nbytes, bias.nbytes, 0])
    check(write(tmp_path, model, buffer, scale, bias), (q * scale[:, None]).reshape(SHAPE), bias)


def test_constants_beside_the_model(tmp_path):
    table, index = normal(RNG, 40, 3), np.arange(7, dtype=np.int32)
    net = Net()
    net.input("x", [40, 3])
    for name, array, kind, offset in (("t", table, "DT_FLOAT", 0), ("i", index, "DT_INT32", table.nbytes)):
        blob = {"dims": list(array.shape), "dataType": kind, "external": [offset, array.nbytes]}
        net.op("Const", [], [name], "Blob", blob, externalPath="weights/big")
    net.op("BinaryOp", ["x", "t"], ["s"], "BinaryOp", {"opType": "ADD"})
    net.op("GatherV2", ["s", "i"], ["y"])
    (tmp_path / "weights").mkdir()
    path = write(tmp_path, net.bytes("y"), table, index, name="weights/big")
    x = normal(RNG, 40, 3)
    np.testing.assert_array_equal(minnow.load(path).run({"x": x})["y"], (x + table)[:7])


def test_the_file_beside_must_be_there_and_whole(tmp_path):
    w, bias = normal(RNG, *SHAPE), normal(RNG, 6)
    model = conv(external=[0, w.nbytes, bias.nbytes])
    with pytest.raises(UsageError, match="from memory"):
        minnow.load(model)
    path = write(tmp_path, model, w)
    with pytest.raises(FormatError, match=r"m\.mnn\.weight, which has 864"):
        minnow.load(path)
    os.remove(tmp_path / "m.mnn.weight")
    with pytest.raises(FormatError, match="missing"):
        minnow.load(path)
    for external in ([-4, w.nbytes, 24], [0, -4, 24], [2**62, 2**62, 2**62], [0, 2**62]):
        with pytest.raises(FormatError):
            minnow.load(write(tmp_path, conv(external=external), w, bias))


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "link"])
def test_no_file_outside_of_the_folder_is_read(tmp_path, name):
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    (inside / "link").symlink_to(tmp_path / "secret")
    net = Net()
    net.input("x", [1])
    net.op("Const", [], ["c"], "Blob", {"dims": [4], "external": [0, 16]}, externalPath=name)
    net.op("BinaryOp", ["x", "c"], ["y"], "BinaryOp", {"opType": "ADD"})
    (inside / "m.mnn").write_bytes(net.bytes("y"))
    with pytest.raises(FormatError, match="outside of the model's folder"):
        minnow.load(inside / "m.mnn")
