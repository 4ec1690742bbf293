"""Weights that are not plain floats: the streams of IDSTQuan, 16-bit floats, and files beside the model."""

from __future__ import annotations

import os
from typing import Any

import mnn_oracle
import numpy as np
import pytest
from engine_oracle import normal
from quantized_streams import packed, stream
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


FORMS = ["symmetric", "least", "zero"]


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_dense_stream(bits, form, half, blocks):
    rows = SHAPE[0] * blocks
    least = -(1 << (bits - 1))
    q = RNG.integers(least, -least, (rows, np.prod(SHAPE) // rows))
    table, w = packed(q, bits, rows, form, half, wide=bits % 2 == 0)
    check(conv(quanParameter=table), w.reshape(SHAPE))


def some_steps(most: int) -> np.ndarray:
    """Distances between numbers that are listed, of all the weights."""
    steps = RNG.integers(1, most + 1, np.prod(SHAPE))
    steps[0] = most
    return steps[np.cumsum(steps) < np.prod(SHAPE)]


@pytest.mark.parametrize("most", [7, 200])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("half", [False, True])
def test_sparse_stream(most, form, half):
    """Distances between the numbers that are listed; the others are zero, or nearly."""
    q, steps = RNG.integers(-8, 8, (6, 36)), some_steps(most)
    table, w = packed(q, 4, 6, form, half, steps=steps)
    check(conv(quanParameter=table), sparse(w, table, steps).reshape(SHAPE))


def sparse(w: np.ndarray, table: dict[str, Any], steps: np.ndarray) -> np.ndarray:
    """Instead of those that are not listed the multiple of the scale beside w that is nearest to zero."""
    alpha = table["alphaFp16"].view(np.float16) if "alphaFp16" in table else table["alpha"]
    scale = alpha.astype(np.float64).reshape(6, -1)[:, -1:]
    nothing = w - np.round(w / scale) * scale
    listed = np.isin(np.arange(w.size), np.cumsum(steps)).reshape(w.shape)
    return np.where(listed, w, nothing)


def test_halves():
    w = (normal(RNG, *SHAPE) / 4).astype(np.float16)
    check(conv(quanParameter={"type": 3, "buffer": w.reshape(-1).view(np.int8)}), w.astype(np.float32))


def test_plain_bytes():
    q = RNG.integers(-128, 128, (6, 36))
    low, scale = RNG.uniform(-1, 0, 6).astype(np.float32), RNG.uniform(0.005, 0.01, 6).astype(np.float32)
    quan = {"type": 4, "buffer": q.astype(np.int8).reshape(-1), "alpha": np.stack([low, scale], 1).reshape(-1)}
    w = (q + 128) * scale[:, None] + low[:, None]
    check(conv(quanParameter=quan | {"readType": 6, "aMin": -128, "quantScale": 1.0}), w.reshape(SHAPE))
    check(conv(quanParameter=quan), w.reshape(SHAPE))  # as the oldest files are, which say nothing else
    from_zero = q * scale[:, None] + low[:, None]
    check(conv(quanParameter=quan | {"readType": 6, "aMin": 1, "quantScale": 1.0}), from_zero.reshape(SHAPE))
    symmetric = quan | {"alpha": scale, "quantScale": 2.0}
    check(conv(quanParameter=symmetric), (2 * q * scale[:, None]).reshape(SHAPE))


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


def beside(table: dict[str, Any], bias: np.ndarray) -> tuple[bytes, list[np.ndarray]]:
    """The model whose weights are in a file of their own, and what that file holds."""
    parts = [table["buffer"], table["alphaFp16"] if "alphaFp16" in table else table["alpha"], bias]
    rest = {k: v for k, v in table.items() if k not in ("buffer", "alpha", "alphaFp16")}
    return conv(quanParameter=rest, external=[0, *(p.nbytes for p in parts), 0]), parts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("half", [False, True])
def test_a_stream_beside_the_model(tmp_path, form, half):
    q, bias = RNG.integers(-8, 8, (6, 36)), normal(RNG, 6)
    table, w = packed(q, 4, 6, form, half)
    model, parts = beside(table, bias)
    check(write(tmp_path, model, *parts), w.reshape(SHAPE), bias)


@mnn_oracle.needs_mnn
def test_mnn_reads_the_same_weights(tmp_path):
    """MNN takes every form of packed weights for the numbers that the tests above expect."""
    jobs, rights = [], []
    for form in FORMS:
        for half in (False, True):
            q, bias = RNG.integers(-8, 8, (6, 36)), normal(RNG, 6)
            table, w = packed(q, 4, 6, form, half)
            model, parts = beside(table, bias)
            sides = b"".join(p.tobytes() for p in parts)
            jobs += [mnn_oracle.File(conv(bias, quanParameter=table), {"x": X}, ["y"])]
            jobs += [mnn_oracle.File(model, {"x": X}, ["y"], sides)]
            rights += [convolve(w.reshape(SHAPE), bias)] * 2
            if form != "zero":  # MNN takes those that are not listed for others than zero
                steps = some_steps(7)
                table, w = packed(q, 4, 6, form, half, steps=steps)
                jobs += [mnn_oracle.File(conv(bias, quanParameter=table), {"x": X}, ["y"])]
                rights += [convolve(sparse(w, table, steps).reshape(SHAPE), bias)]
    q = RNG.integers(-128, 128, (6, 36))
    low, scale = RNG.uniform(-1, 0, 6).astype(np.float32), RNG.uniform(0.005, 0.01, 6).astype(np.float32)
    plain = {"type": 4, "buffer": q.astype(np.int8).reshape(-1), "alpha": np.stack([low, scale], 1).reshape(-1)}
    for quan, w in (
        (plain, (q + 128) * scale[:, None] + low[:, None]),
        (plain | {"readType": 6, "aMin": 1, "quantScale": 1.0}, q * scale[:, None] + low[:, None]),
        (plain | {"alpha": scale, "quantScale": 2.0}, 2 * q * scale[:, None]),
    ):
        jobs += [mnn_oracle.File(conv(quanParameter=quan), {"x": X}, ["y"])]
        rights += [convolve(w.reshape(SHAPE))]
    for answer, right in zip(mnn_oracle.run(jobs, tmp_path), rights, strict=True):
        assert answer.outputs is not None, answer.log
        np.testing.assert_allclose(answer.outputs[0], right, rtol=1e-4, atol=1e-4)


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
