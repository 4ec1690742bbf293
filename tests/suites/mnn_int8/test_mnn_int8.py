"""Files of MNN's quantizer, whose tensors are 8-bit integers: the engine computes what MNN's runtime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import pytest
from suites.mnn_int8.nets import feed
from suites.mnn_int8.write import FILES, names, results, write

import minnow
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.mnn import decode, encode, wire

RECORDED = np.load(FILES / "outputs.npz")
NAMES = names()


def roundings(net: dict[str, Any]) -> dict[str, Any]:
    """By the name of the tensor: how the file says that it is rounded."""
    rows = net.get("extraTensorDescribe", [])
    default = {"zero": 0.0, "min": -128.0, "max": 127.0}
    return {net["tensorName"][row.get("index", 0)]: default | row["quantInfo"] for row in rows if row.get("quantInfo")}


def check(data: bytes, right: np.ndarray, where: Any = None) -> None:
    """Equal but for a few elements in a hundred, which are one step beside: those whose real is between two."""
    got = minnow.load(data if where is None else where).run({"x": feed()})["y"]
    assert got.shape == right.shape
    scale = max((q["scale"] for n, q in roundings(wire.read(data)).items() if n in ("y", "y__before_tr")), default=0.0)
    away = np.abs(got - right)
    assert away.max() <= scale * 1.001 + 1e-4 * np.abs(right).max()
    assert (away > 1e-3 * np.abs(right).max()).mean() <= 0.03


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_mnn_gives(name):
    check((FILES / f"{name}.mnn").read_bytes(), RECORDED[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_rounding_is_needed(name):
    """Without what the file says of its tensors, the results are others: so the tests above can fail."""
    net = wire.read((FILES / f"{name}.mnn").read_bytes())
    del net["extraTensorDescribe"]
    got = minnow.load(wire.write(net)).run({"x": feed()})["y"]
    assert (np.abs(got - RECORDED[name]) > 1e-3 * np.abs(RECORDED[name]).max()).mean() > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_is_written_again_with_its_integers(name):
    data = (FILES / f"{name}.mnn").read_bytes()
    again = encode(decode(data))
    before, after = (wire.read(d) for d in (data, again))
    # The last tensors may have other names: those of the model's outputs.
    assert _numbers(after) == _numbers(before)
    first, second = (minnow.load(d).run({"x": feed()})["y"] for d in (data, again))
    np.testing.assert_array_equal(first, second)


def _renamed(name: str) -> bytes:
    """The file with the op types that earlier converters wrote."""
    net = wire.read((FILES / f"{name}.mnn").read_bytes())
    older = {"Convolution": "ConvInt8", "ConvolutionDepthwise": "DepthwiseConvInt8"}
    net["oplists"] = [dict(op) | {"type": older.get(op["type"], op["type"])} for op in net["oplists"]]
    return wire.write(net)


RENAMED = ["conv.KL", "depthwise.KL", "groups.KL", "relu6.KL", "conv.EMA", "depthwise.EMA"]


@pytest.mark.parametrize("name", RENAMED)
def test_integer_convolutions_with_packed_weights(name):
    check(_renamed(name), RECORDED[name])


@mnn_oracle.needs_mnn
@pytest.mark.slow
def test_mnn_takes_both_names_for_the_same(tmp_path: Path):
    for name, got in results({n: _renamed(n) for n in RENAMED}, tmp_path).items():
        np.testing.assert_array_equal(got, RECORDED[name], err_msg=name)


def _numbers(net: dict[str, Any]) -> list[tuple[float, ...]]:
    return sorted((q["scale"], q["zero"], q["min"], q["max"]) for q in roundings(net).values())


def _changed(**info: Any) -> bytes:
    net = wire.read((FILES / "conv.KL.mnn").read_bytes())
    rows = [dict(row) for row in net["extraTensorDescribe"]]
    at = {key: info.pop(key) for key in list(info) if key == "index"}
    rows[1] = rows[1] | at | {"quantInfo": dict(rows[1]["quantInfo"]) | info}
    net["extraTensorDescribe"] = rows
    return wire.write(net)


@pytest.mark.parametrize(
    ("info", "error", "says"),
    [
        ({"scale": float("nan")}, FormatError, "a scale of nan"),
        ({"scale": float("inf")}, FormatError, "a scale of inf"),
        ({"scale": -1.0}, FormatError, "a scale of -1"),
        ({"zero": float("nan")}, FormatError, "a zero point of nan"),
        ({"index": 99}, FormatError, "there is no tensor 99"),
        ({"index": -1}, FormatError, "there is no tensor -1"),
        ({"zero": 200.0}, UnsupportedError, "8 bits cannot hold"),
        ({"zero": 0.5}, UnsupportedError, "8 bits cannot hold"),
        ({"min": 9.0, "max": 8.0}, UnsupportedError, "8 bits cannot hold"),
        ({"type": "DT_UINT8"}, UnsupportedError, "quantized to DT_UINT8"),
    ],
)
def test_what_makes_no_sense_is_refused(info, error, says):
    with pytest.raises(error, match=says):
        minnow.load(_changed(**info))


def test_a_scale_of_zero_stands_for_zeros():
    """The quantizer writes it for a tensor that was zero in all images."""
    y = minnow.load(_changed(scale=0.0)).run({"x": feed()})["y"]
    assert np.ptp(y, axis=(2, 3)).max() == 0


@mnn_oracle.needs_mnn
@pytest.mark.slow
def test_mnn_runs_what_is_written_again(tmp_path: Path):
    files = {n: encode(decode((FILES / f"{n}.mnn").read_bytes())) for n in NAMES}
    for name, got in results(files, tmp_path).items():
        np.testing.assert_array_equal(got, RECORDED[name], err_msg=name)


@mnn_oracle.needs_mnn
@pytest.mark.slow
def test_mnn_writes_the_files(tmp_path: Path):
    """The files that MNN writes today, not those that are kept here."""
    made = {name: write(name, tmp_path) for name in NAMES}
    for name, right in results(made, tmp_path / "runs").items():
        check(made[name], right)
