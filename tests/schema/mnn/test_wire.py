"""The dict form of `.mnn`: what is read, what is written, what it costs, and what is refused."""

import mmap
import tracemalloc
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

from minnow.schema.errors import FormatError, InternalError, MinnowError, UnsupportedError
from minnow.schema.ir import ArrayBlob, DType, LazyBlob
from minnow.schema.mnn import wire, wire_write

MODELS = sorted((Path(__file__).parents[3] / ".." / "shared" / "models" / "mnn").glob("*/*.mnn"))


def conv_net(**conv):
    op = {"type": "Convolution", "main_type": "Convolution2D", "main": conv, "outputIndexes": [1]}
    return {"oplists": [op], "tensorName": ["x", "y"]}


def conv_of(data):
    return wire.read(data)["oplists"][0]["main"]


def test_a_net_as_plain_values():
    net = {
        "bizCode": "",
        "sourceType": "ONNX",
        "tensorName": ["x", "y", "größe"],
        "outputName": [],
        "oplists": [
            {"type": "Input", "outputIndexes": [0], "main_type": "Input", "main": {"dims": [1, -1], "dformat": "NCHW"}},
            {"type": 9999, "inputIndexes": [0, -1], "outputIndexes": [1]},
            {"type": "Plugin", "main_type": 200},
        ],
        "extraTensorDescribe": [{"index": 1, "quantInfo": {"scale": 0.5, "zero": -0.0, "type": "DT_INT8"}}],
    }
    back = wire.read(wire.write(net))
    assert back["sourceType"] == "ONNX"
    assert back["bizCode"] == ""
    assert back["tensorName"] == ["x", "y", "größe"]
    assert back["outputName"] == []
    first, second, third = back["oplists"]
    assert first["main_type"] == "Input"
    np.testing.assert_array_equal(first["main"]["dims"], np.array([1, -1], "<i4"), strict=True)
    assert first["main"]["dformat"] == "NCHW"
    assert second["type"] == 9999
    assert set(second) == {"type", "inputIndexes", "outputIndexes"}
    assert third == {"type": "Plugin", "main_type": 200}
    quant = back["extraTensorDescribe"][0]["quantInfo"]
    assert np.signbit(quant["zero"]), "-0.0 is not the default"
    assert set(quant) == {"scale", "zero", "type"}


def test_defaults_and_none_are_left_out():
    common = {"kernelX": 1, "kernelY": 3, "padMode": "CAFFE", "relu": False, "group": None, "outputCount": 0}
    assert conv_of(wire.write(conv_net(common=common, weight=None))) == {"common": {"kernelY": 3}}
    assert wire.read(wire.write({"oplists": [{"defaultDimentionFormat": "NHWC", "main_type": "NONE"}]})) == {
        "oplists": [{}]
    }


def test_enums_may_be_numbers():
    names = {"type": "Const", "main_type": "Blob", "main": {"dataType": "DT_INT8", "int8s": b"\x01\xff"}}
    numbers = {"type": 11, "main_type": 7, "main": {"dataType": np.int64(6), "int8s": [1, -1]}}
    assert wire.write({"oplists": [names]}) == wire.write({"oplists": [numbers]})


def test_vectors_are_views_into_the_file(tmp_path):
    weight = np.arange(5000, dtype=np.float32)
    path = tmp_path / "a.mnn"
    path.write_bytes(wire.write(conv_net(weight=weight)))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        base = np.frombuffer(mapped, np.uint8)
        back = conv_of(mapped)["weight"]
        np.testing.assert_array_equal(back, weight, strict=True)
        assert np.shares_memory(back, base)
        assert not back.flags.writeable
        assert (back.ctypes.data - base.ctypes.data) % 64 == 0, "long vectors start on a cache line"
        del back, base


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        ("weight", np.arange(6).reshape(2, 3), [0, 1, 2, 3, 4, 5]),
        ("weight", np.arange(6, dtype=">f4").reshape(2, 3).T, [0, 3, 1, 4, 2, 5]),
        ("weight", np.array([1.5, np.nan, -np.inf]), [1.5, np.nan, -np.inf]),
        ("weight", [True, 2, 0.25], [1, 2, 0.25]),
        ("weight", np.float32(7), [7]),
        ("weight", np.float16([0.1]), [float(np.float16(0.1))]),
        ("weight", (), []),
        ("weight", ArrayBlob(np.float32([[3, 4]])), [3, 4]),
        ("weight", LazyBlob(lambda: np.arange(3, dtype=np.float32), DType.F32, (3,)), [0, 1, 2]),
        ("external", np.array([2**40, -1]), [2**40, -1]),
        ("external", range(3), [0, 1, 2]),
    ],
)
def test_vectors_are_taken_from_anything_array_like(field, given, expected):
    np.testing.assert_array_equal(conv_of(wire.write(conv_net(**{field: given})))[field], expected)


def test_bytes_bools_and_enums_as_vectors():
    values = {
        "info": bytearray(b"\x80\x7f"),
        "attr": [{"key": "k", "list": {"b": [True, False], "type": ["DT_HALF", 77], "s": ["", "\udcff"]}}],
    }
    back = wire.read_nested("Extra", wire.write_nested("Extra", values))
    assert back["info"].tolist() == [-128, 127]
    assert back["attr"][0]["list"]["b"].tolist() == [True, False]
    assert back["attr"][0]["list"]["b"].dtype == bool
    assert back["attr"][0]["list"]["type"] == ["DT_HALF", 77]
    assert back["attr"][0]["list"]["s"] == ["", "\udcff"], "bytes that are not UTF-8 survive"


def test_a_nested_buffer_is_read_where_it_lies():
    meta = wire.write_nested("Extra", {"type": "Meta", "engine": "MNN", "attr": [{"key": "a", "s": "b"}]})
    net = wire.read(wire.write({"extraInfo": {"buffer": meta, "version": "3.0.0"}}))
    assert wire.read_nested("Extra", net["extraInfo"]["buffer"]) == wire.read_nested("Extra", meta)
    assert wire.read_nested("Extra", meta)["attr"] == [{"key": "a", "s": "b"}]


def test_the_same_dict_gives_the_same_bytes_in_any_order():
    net = conv_net(weight=np.ones(300, np.float32), common={"kernelX": 3, "kernelY": 5})
    reordered = {"tensorName": net["tensorName"], "oplists": [dict(reversed(net["oplists"][0].items()))]}
    assert wire.write(net) == wire.write(net) == wire.write(reordered)


def test_equal_strings_and_vtables_are_stored_once():
    name = "a name that is long enough to be noticed"
    one = wire.write({"oplists": [{"name": name, "type": "ReLU"}]})
    many = wire.write({"oplists": [{"name": name, "type": "ReLU"}] * 100})
    assert many.count(name.encode()) == 1
    assert len(many) <= len(one) + 99 * (4 + 12)


def test_the_builder_is_never_grown(monkeypatch):
    """Growing takes up to four times the memory, so the estimate must hold for every kind of value."""

    def grow(builder):
        raise AssertionError("the estimate was too low")

    monkeypatch.setattr(flatbuffers.Builder, "GrowByteBuffer", grow)
    rng = np.random.default_rng(0)
    for count in (0, 1, 7, 1000):
        wire.write(conv_net(weight=rng.random(count, np.float32), external=[1] * count, bias=[0.5] * count))
        wire.write({"tensorName": ["ä" * count, "x"] * 3, "oplists": [{}] * count, "bizCode": "b" * count})
        wire.write({"extraTensorDescribe": [{"regions": [{"src": {"stride": [1, 2, 3]}, "size": [1]}] * 5}] * count})
        wire.write({"extraInfo": {"buffer": b"\1" * count, "name": "\U0001f41f" * count}})
    for model in MODELS:
        wire.write(wire.read(model.read_bytes()))


def test_memory_is_that_of_the_file():
    weights = [np.ones(1_000_003, np.float32) for _ in range(4)]
    net = {"oplists": [conv_net(weight=weight)["oplists"][0] for weight in weights]}
    size = sum(weight.nbytes for weight in weights)
    tracemalloc.start()
    try:
        view = wire.write_view(net)
        assert tracemalloc.get_traced_memory()[1] < 1.05 * size
        del view
        tracemalloc.reset_peak()
        data = wire.write(net)
        assert tracemalloc.get_traced_memory()[1] < 2.1 * size
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        back = wire.read(data)
        assert tracemalloc.get_traced_memory()[1] - before < 0.01 * size
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(back["oplists"][3]["main"]["weight"], weights[3])


@pytest.mark.parametrize(
    ("net", "where", "why"),
    [
        ({"oplist": []}, "Net", "no field 'oplist'"),
        ({"oplists": [{}, {"nme": ""}]}, "Net.oplists[1]", "the table Op has no field 'nme'"),
        ({"oplists": {}}, "Net.oplists", "expected a list, not dict"),
        ({"oplists": [[]]}, "Net.oplists[0]", "written from a dict"),
        ({"tensorName": "xy"}, "Net.tensorName", "expected a list, not str"),
        ({"tensorName": [b"x"]}, "Net.tensorName[0]", "expected a string, not bytes"),
        ({"tensorName": ["\ud800"]}, "Net.tensorName[0]", "cannot be encoded"),
        ({"usage": "SLEEP"}, "Net.usage", "Usage has no member 'SLEEP'"),
        ({"usage": 128}, "Net.usage", "128 is not a value of type int8"),
        ({"tensorNumber": 2**31}, "Net.tensorNumber", "not a value of type int32"),
        ({"tensorNumber": 1.5}, "Net.tensorNumber", "not a value of type int32"),
        ({"tensorNumber": "3"}, "Net.tensorNumber", "not a value of type int32"),
        ({"oplists": [{"main": {}}]}, "Net.oplists[0].main", "'main_type' must name the table"),
        ({"oplists": [{"main": {}, "main_type": "NONE"}]}, "Net.oplists[0].main", "'main_type' must name"),
        ({"oplists": [{"main": {}, "main_type": 200}]}, "Net.oplists[0].main", "'main_type' must name"),
        ({"oplists": [{"main_type": "Net"}]}, "Net.oplists[0].main_type", "OpParameter has no member 'Net'"),
        (conv_net(common={"relu": 2}), "Net.oplists[0].main.common.relu", "2 is not a bool"),
        (conv_net(common={"relu": np.zeros(2)}), "Net.oplists[0].main.common.relu", "is not a bool"),
        (conv_net(common={"pads": [1, 2**31]}), "Net.oplists[0].main.common.pads", "do not fit a vector of int32"),
        (conv_net(common={"pads": [2**70]}), "Net.oplists[0].main.common.pads", "is not a vector of int32"),
        (conv_net(common={"pads": [1.0]}), "Net.oplists[0].main.common.pads", "float64 is not a vector of int32"),
        (conv_net(common={"pads": b"1234"}), "Net.oplists[0].main.common.pads", "bytes are not a vector of int32"),
        (conv_net(weight=[1e39]), "Net.oplists[0].main.weight", "do not fit a vector of float32"),
        (conv_net(weight=["1"]), "Net.oplists[0].main.weight", "is not a vector of float32"),
        (conv_net(weight=[[1], [2, 3]]), "Net.oplists[0].main.weight", "is not a vector of float32"),
        (conv_net(weight=[1j]), "Net.oplists[0].main.weight", "complex128 is not a vector of float32"),
        (conv_net(quanParameter={"quantScale": 1e39}), "Net.oplists[0].main.quanParameter.quantScale", "float32"),
        (conv_net(quanParameter={"buffer": [128]}), "Net.oplists[0].main.quanParameter.buffer", "128 do not fit"),
        (conv_net(sparseParameter={"args": [{"i": 1}]}), "Net.oplists[0].main.sparseParameter.args[0].key", "required"),
    ],
)
def test_what_cannot_be_written(net, where, why):
    with pytest.raises(MinnowError) as caught:
        wire.write(net)
    # A number of the model may be too large, which is nobody's mistake.
    too_large = "do not fit" in why or net.get("tensorNumber") == 2**31
    assert isinstance(caught.value, UnsupportedError if too_large else InternalError)
    assert caught.value.where == where
    assert why in caught.value.why


def test_tables_too_deep_or_too_many_are_not_written(monkeypatch):
    attribute = {"key": ""}
    for _ in range(40):
        attribute = {"key": "", "func": {"attr": [attribute]}}
    with pytest.raises(InternalError, match="64 deep"):
        wire.write_nested("Attribute", attribute)
    monkeypatch.setattr(wire_write, "MAX_TABLES", 10)
    wire.write({"oplists": [{}] * 9})
    with pytest.raises(InternalError, match="more than 10 tables"):
        wire.write({"oplists": [{}] * 10})


def test_what_is_too_large_is_refused_before_memory_is_taken():
    huge = np.broadcast_to(np.float32(1), (2**29,))
    with pytest.raises(UnsupportedError, match="2 GiB") as caught:
        wire.write(conv_net(weight=huge))
    assert "companion weights file" in caught.value.hint


def test_the_registry_of_names():
    assert wire.enums["PadMode"] == {"CAFFE": 0, "VALID": 1, "SAME": 2}
    assert wire.unions["OpParameter"]["Convolution2D"] == 9
    assert [field.name for field in wire.tables["Axis"].fields.values()] == ["axis"]
    with pytest.raises(AttributeError, match="enumerations"):
        _ = wire.enumerations


@pytest.mark.skipif(not MODELS, reason="the models are not part of the repository")
@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_real_models_survive_a_round_trip(model):
    net = wire.read(model.read_bytes())
    assert len(net["oplists"]) > 50
    convolutions = [op["main"] for op in net["oplists"] if op["main_type"] == "Convolution2D"]
    assert len(convolutions) > 20
    for main in convolutions:
        bias = main["symmetricQuan"]["bias"] if "symmetricQuan" in main else main["bias"]
        assert len(bias) == main["common"]["outputCount"]
    again = wire.read(wire.write(net))
    assert again.keys() <= net.keys()
    assert wire.write(again) == wire.write(net)
    for old, new in zip(net["oplists"], again["oplists"], strict=True):
        assert {name: wire.default("Op", name) for name in old.keys() - new.keys()} == {
            name: old[name] for name in old.keys() - new.keys()
        }


def test_a_foreign_file_is_refused():
    for data in (b"", b"\0" * 100, b"not a model, just a line of text", b"\x08\x07\x12\x07pytorch" * 9):
        with pytest.raises(FormatError, match=r"not \.mnn at all"):
            wire.read(data)
