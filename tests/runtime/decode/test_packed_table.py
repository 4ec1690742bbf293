"""Tables of few bits, of which rows are looked up: in the file once with a product of the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wire_net import Net

import minnow
from minnow.optimizer.quantize.pack import place_packed
from minnow.schema.errors import FormatError
from minnow.schema.ir import DType, Graph, Model, QuantizedBlob, TensorType, Value
from minnow.schema.mnn import save
from minnow.schema.ops import Builder

ROWS, COLUMNS = 37, 96


def _table(bits: int, block: int, low: bool, half: bool) -> QuantizedBlob:
    rng = np.random.default_rng(bits)
    count = ROWS * COLUMNS // block
    dtype = np.float16 if half else np.float32
    scale = rng.uniform(0.5, 1, count).astype(dtype)
    lows = rng.standard_normal(count).astype(dtype) if low else None
    codes = rng.integers(0, 1 << bits, (count, block)).astype(np.uint8)
    return QuantizedBlob(codes, bits, scale, lows, (ROWS, COLUMNS))


def _model(table: QuantizedBlob, product: bool = False) -> Model:
    graph = Graph()
    ids = graph.add_param(TensorType(DType.I32, ("n",)), "ids")
    b = Builder(graph)
    y = b.Gather(Value.constant(table, "table"), ids, axis=0)
    outputs = [("rows", y)]
    if product:
        outputs.append(("scores", b.Linear(y, Value.constant(table, "head"))))
    graph.outputs = [v for _, v in outputs]
    for name, value in outputs:
        value.name = name
    place_packed(graph)
    return Model(graph, [("ids", ids.type)], [(n, v.type) for n, v in outputs])


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize(("block", "low", "half"), [(32, True, True), (16, False, True), (COLUMNS, True, False)])
def test_rows_are_those_of_the_table(bits: int, block: int, low: bool, half: bool, tmp_path: Path) -> None:
    table = _table(bits, block, low, half)
    save(_model(table), tmp_path / "model.mnn")
    ids = np.array([0, 36, 5, 5, -1], np.int32)
    got = minnow.load(tmp_path / "model.mnn").run({"ids": ids})["rows"]
    want = table.numpy()[ids]
    np.testing.assert_allclose(got, want, rtol=0, atol=3e-7 * np.abs(want).max())


def test_a_product_and_a_table_are_in_the_file_once(tmp_path: Path) -> None:
    table = _table(8, 32, low=False, half=True)
    for name, product in (("alone", False), ("both", True)):
        save(_model(table, product), tmp_path / f"{name}.mnn", side_file=True)
    sizes = [(tmp_path / f"{name}.mnn.weight").stat().st_size for name in ("alone", "both")]
    assert sizes[0] == sizes[1] > ROWS * COLUMNS
    ids = np.array([3, 30], np.int32)
    got = minnow.load(tmp_path / "both.mnn").run({"ids": ids})
    rows = table.numpy()[ids]
    np.testing.assert_allclose(got["rows"], rows, rtol=2e-6)
    np.testing.assert_allclose(got["scores"], rows @ table.numpy().T, rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize(
    ("common", "quantized", "message"),
    [
        ({"outputCount": 0, "inputCount": 4}, {}, "0 rows of 4 numbers"),
        ({"outputCount": 4, "inputCount": -1}, {}, "4 rows of -1 numbers"),
        ({"outputCount": 1 << 30, "inputCount": 1 << 30}, {}, "weights"),
        ({"outputCount": 5, "inputCount": 4}, {}, "weights"),
        ({"outputCount": 4, "inputCount": 4}, {"type": 9}, "form 9"),
        (None, {}, "parameters"),
        ({"outputCount": 4, "inputCount": 4}, None, "parameters"),
    ],
)
def test_damaged_tables(common: Any, quantized: Any, message: str, tmp_path: Path) -> None:
    codes = np.frombuffer(bytes([2, 4, 0, 4, 0, 0, *range(256), *bytes(16)]), np.int8)
    good = {"type": 1, "buffer": codes, "alpha": np.ones(4, np.float32), "aMaxOrBits": 8, "quantScale": 1.0}
    net = Net()
    main: dict[str, Any] = {}
    if common is not None:
        main["common"] = common
    if quantized is not None:
        main["quanParameter"] = good | quantized
    ids = net.input("ids", [2], "DT_INT32")
    net.op("GatherV2", [ids], ["y"], "Convolution2D", main)
    path = tmp_path / "model.mnn"
    path.write_bytes(net.bytes("y"))
    with pytest.raises((FormatError, minnow.errors.UnsupportedError), match=message):
        minnow.load(path).run({"ids": np.array([0, 1], np.int32)})
