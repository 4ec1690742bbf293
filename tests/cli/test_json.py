"""`mnnconvert json`: the JSON form of files, compared with that of MNN's converter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import mnn_flag_models as models
from oracles import mnn_converter, mnn_oracle

import minnow
from minnow.cli._app import run as run_cli
from minnow.schema.errors import FormatError
from minnow.schema.mnn import wire
from minnow.schema.mnn.json_form import from_json, to_json


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    minnow.convert(models.network(folder / "n.onnx"), output=folder / "n.mnn", verify=False)
    return folder / "n.mnn"


def filled(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """With the defaults that a reader fills in; vectors as lists of bytes, so that NaN is equal to itself."""
    found: dict[str, Any] = {}
    for field in wire.tables[table].fields.values():
        value = values.get(field.name)
        if value is None:
            if field.kind in ("scalar", "enum") and not field.vector:
                found[field.name] = field.default
        elif field.kind == "union":
            found[field.name] = filled(values[f"{field.name}_type"], value)
        elif field.kind == "table":
            found[field.name] = [filled(field.type, v) for v in value] if field.vector else filled(field.type, value)
        else:
            found[field.name] = np.asarray(value).tobytes() if isinstance(value, np.ndarray) else value
    return found


def test_there_and_back_nothing_is_lost(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(["json", str(file), "-o", str(tmp_path / "n.json")]) == 0
    assert run_cli(["json", str(tmp_path / "n.json")]) == 0
    assert (tmp_path / "n.mnn").read_bytes() == wire.write(wire.read(file.read_bytes()))
    table = json.loads((tmp_path / "n.json").read_text())
    assert table["oplists"][0]["main_type"] == "Input"
    assert "error" not in capsys.readouterr().err


FLOATS = hnp.arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32))


@given(floats=FLOATS, ints=hnp.arrays(np.int64, st.integers(0, 9)), small=hnp.arrays(np.int8, st.integers(0, 9)),
       name=st.text())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_all_numbers_and_names_come_back(floats: Any, ints: Any, small: Any, name: str) -> None:
    blob = {"float32s": floats, "int64s": ints, "int8s": small, "uint8s": small.view(np.uint8)}
    net = {"oplists": [{"main_type": "Blob", "main": blob, "name": name}], "tensorName": [name]}
    again = from_json("".join(to_json(net)))
    same = again["oplists"][0]["main"]
    finite = ~np.isnan(floats)
    assert same["float32s"][finite].tobytes() == floats[finite].tobytes()
    assert np.isnan(same["float32s"][~finite]).all()
    for field in ("int64s", "int8s", "uint8s"):
        assert np.array_equal(same[field], blob[field])
    assert again["tensorName"] == [name]


@mnn_oracle.needs_mnn
def test_mnn_reads_ours(file: Path, tmp_path: Path) -> None:
    """Numbers that six decimals do not hold, infinities, and one that is rounded twice by way of float64, too."""
    net = wire.read(file.read_bytes())
    hard = np.float32([1.23e-7, -1 / 3, 12345.678, 7.038531e-26, 1e-45, np.inf, -np.inf, 3.4028235e38, -0.0, 16777216])
    op = {"main_type": "Blob", "main": {"dims": [hard.size], "float32s": hard}, "type": "Const", "name": 'a"\\\n\u00e9'}
    net["tensorName"] = [*net["tensorName"], "hard"]
    net["oplists"] = [*net["oplists"], {**op, "outputIndexes": [len(net["tensorName"]) - 1]}]
    (tmp_path / "h.mnn").write_bytes(wire.write(net))
    net = wire.read((tmp_path / "h.mnn").read_bytes())
    assert run_cli(["json", str(tmp_path / "h.mnn")]) == 0
    log = mnn_converter.convert(
        "-f", "JSON", "--modelFile", "h.json", "--MNNModel", "back.mnn", "--bizCode", "x", folder=tmp_path
    )
    assert (tmp_path / "back.mnn").exists(), log
    assert filled("Net", wire.read((tmp_path / "back.mnn").read_bytes())) == filled("Net", net)


@mnn_oracle.needs_mnn
def test_we_read_mnns(file: Path, tmp_path: Path) -> None:
    """MNN rounds to six decimals; all else is the same."""
    source = models.network(tmp_path / "n.onnx")
    words = ["-f", "ONNX", "--modelFile", source, "--MNNModel", "m.mnn", "--weightQuantBits", 8, "--saveStaticModel"]
    mnn_converter.convert(*words, folder=tmp_path)
    mnn_converter.convert("-f", "MNN", "--modelFile", "m.mnn", "--JsonFile", "m.json", folder=tmp_path)
    assert run_cli(["-f", "JSON", "--modelFile", str(tmp_path / "m.json"), "--MNNModel", str(tmp_path / "b.mnn")]) == 0

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: rounded(v) for k, v in value.items()}
        if isinstance(value, list):
            return [rounded(v) for v in value]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return np.round(value.astype(np.float64), 5).tolist()
        return value.tolist() if isinstance(value, np.ndarray) else value

    theirs, ours = (rounded(wire.read((tmp_path / n).read_bytes())) for n in ("m.mnn", "b.mnn"))
    assert theirs.keys() == ours.keys()
    assert len(ours["oplists"]) == len(theirs["oplists"]) > 5
    for a, b in zip(ours["oplists"], theirs["oplists"], strict=True):
        assert a.keys() == b.keys()
        assert a.get("main", {}).keys() == b.get("main", {}).keys()
        assert a.get("main", {}).get("common") == b.get("main", {}).get("common")
    assert ours["extraTensorDescribe"] == theirs["extraTensorDescribe"]


def test_infinities_and_nan_of_mnns_writer_are_read(tmp_path: Path, capsys: Any) -> None:
    text = '{"bizCode": "inf nan", "oplists": [{"main_type": "Blob", "main": {"float32s": [ inf, -inf, nan, 1.5 ]}}]}'
    net = from_json(text)
    assert net["bizCode"] == "inf nan"
    numbers = net["oplists"][0]["main"]["float32s"]
    assert np.array_equal(numbers, np.float32([np.inf, -np.inf, np.nan, 1.5]), equal_nan=True)
    (tmp_path / "n.mnn").write_bytes(wire.write({**net, "tensorName": []}))
    assert run_cli(["json", str(tmp_path / "n.mnn")]) == 0
    assert "NaN" in capsys.readouterr().out


HOSTILE = {
    '{"a": ': "not JSON", "[1, 2]": "is an object", '{"oplists": 3}': "expected a list", "{]": "not JSON",
    '{"oplists": [{"typ": "Const"}]}': "no field 'typ'", '{"oplists": [{"type": "Konst"}]}': "no member 'Konst'",
    '{"oplists": [{"main": {}}]}': "main_type", '{"oplists": [{"main_type": "Blob", "main": {"dims": [1.5]}}]}': "1.5",
    '{"oplists": [{"inputIndexes": [4294967296]}]}': "out of the range", '{"bizCode": "a", "bizCode": "b"}': "twice",
    '{"oplists": [{"inputIndexes": ["1"]}]}': "a string", '{"usage": true}': "true or false",
    '{"oplists": [{"name": null, "inputIndexes": [{}]}]}': "an object", '{"tensorNumber": 1e999}': "expected int32",
    "[" * 100_000: "too deep", '{"subgraphs": [{"nodes": [{"main_type": 250, "main": {}}]}]}': "main_type",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_wrong_is_said_with_its_place(text: str, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(FormatError) as caught:
        from_json(text)
    assert HOSTILE[text] in str(caught.value)
    (tmp_path / "x.json").write_text(text)
    line = ["-f", "JSON", "--modelFile", str(tmp_path / "x.json"), "--MNNModel", str(tmp_path / "x.mnn")]
    assert run_cli(line) == 6
    assert "Traceback" not in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_other_files_are_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "bytes.json").write_bytes(b'{"bizCode": "\xff\xfe"}')
    for name in ("empty", "missing", "bytes.json", "."):
        assert run_cli(["json", str(tmp_path / name), "-o", str(tmp_path / "out.mnn")]) == 6
    (tmp_path / "n.json").write_text("{}")
    assert run_cli(["json", str(tmp_path / "n.json"), "-o", str(tmp_path / "n.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_tflite_has_no_json_form(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert run_cli(["-f", "TFLITE", "--modelFile", str(file), "--JsonFile", str(tmp_path / "n.json")]) == 3
    assert run_cli(["-f", "MNN", "--modelFile", str(file), "--JsonFile", str(tmp_path / "n.json")]) == 0
    assert "has convert to JsonFile" in capsys.readouterr().out
    assert from_json((tmp_path / "n.json").read_text())["tensorName"]
