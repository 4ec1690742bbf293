"""`mnnconvert check`: everything that stands in the way of a conversion, and what else there is to know."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.cli._app import run
from minnow.errors import UnsupportedError


def save(path, nodes, inputs, outputs, initializers=(), domains=()):
    info = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *info, list(initializers))
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="maker"), path)
    return str(path)


@pytest.fixture
def hopeless(tmp_path):
    """Three reasons in four nodes: unknown operators one behind the other, one in a branch, a strange attribute."""
    branch = [
        helper.make_graph([node], name, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])
        for name, out, node in (
            ("then", "t", helper.make_node("Foo", ["x"], ["t"], name="inner", domain="mine")),
            ("else", "e", helper.make_node("Relu", ["x"], ["e"])),
        )
    ]
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="first", domain="mine"),
        helper.make_node("Bar", ["a"], ["b"], name="second", domain="mine"),
        helper.make_node("MaxPool", ["x"], ["p"], name="third", kernel_shape=[2, 2], strange=1),
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL),
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["truth"], to=TensorProto.BOOL),
        helper.make_node("If", ["truth"], ["i"], name="choice", then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Sum", ["b", "i"], ["y"]),
    ]
    return save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 8, 8]}, {"y": None}, domains=["mine"])


def test_all_reasons_are_found_at_once(hopeless):
    found = minnow.check(hopeless)
    assert not found.convertible
    refused = {r.reason: r.nodes for r in found.refused}
    assert refused["mine::Foo"] == ("inner", "first") or refused["mine::Foo"] == ("first", "inner")
    assert refused["mine::Bar"] == ("second",)
    (attribute,) = (nodes for reason, nodes in refused.items() if "strange" in reason)
    assert attribute == ("third",)
    assert len(refused) == 3
    with pytest.raises(UnsupportedError) as caught:
        minnow.convert(hopeless, verify=False)
    assert {r.reason: r.nodes for r in caught.value.refused} == refused


def test_the_command_exits_with_3_and_writes_nothing(hopeless, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    assert run(["check", hopeless]) == 3
    text = capsys.readouterr().out
    for word in ("cannot be converted", "mine::Foo", "second", "strange", "opset ai.onnx 17", "N"):
        assert word in text
    assert run(["check", hopeless, "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["convertible"] is False
    assert {r["reason"]: r["nodes"] for r in found["refused"]}["mine::Bar"] == ["second"]
    assert found["description"]["versions"] == {"ai.onnx": 17, "mine": 1}
    assert found["description"]["operators"]["mine::Foo"] == 2
    assert sorted(tmp_path.iterdir()) == before


def conv(path):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 3, 3, 3], [0.1] * 432)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    return save(path, [node], {"x": ["N", 3, "H", "W"]}, {"y": None}, [weight])


def test_what_can_be_converted(tmp_path, capsys):
    path = conv(tmp_path / "m.onnx")
    assert run(["check", path, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["convertible"] is True
    assert found["symbols"] == ["N", "H", "W"]
    assert found["macs"] is None
    assert found["description"]["producer"] == "maker"
    assert found["description"]["size"] == (tmp_path / "m.onnx").stat().st_size
    assert found["description"]["inputs"] == [{"name": "x", "dtype": "float", "shape": ["N", 3, "H", "W"]}]


def test_macs_are_those_of_the_shapes_given(tmp_path):
    path = conv(tmp_path / "m.onnx")
    each = 16 * 112 * 112 * 27
    assert minnow.check(path, inputs={"x": ("?", 3, 224, 224)}).macs == each
    assert minnow.check(path, inputs={"x": (5, 3, 224, 224)}).macs == 5 * each


def test_files_that_are_no_models(tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x12garbage")
    assert run(["check", str(tmp_path / "m.onnx")]) == 6
    assert run(["check", str(tmp_path / "none.onnx")]) == 6


def test_several_models_are_all_checked(hopeless, tmp_path, capsys):
    """The exit code is that of the first one with a problem, and no model hides the others."""
    good = save(tmp_path / "good.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": [1]})
    missing = str(tmp_path / "none.onnx")
    assert run(["check", good, missing, hopeless]) == 6
    out, err = capsys.readouterr()
    assert "good.onnx: can be converted" in out
    assert "m.onnx: cannot be converted" in out
    assert "none.onnx" in err
    assert run(["check", "--quiet", good, good]) == 0
    assert capsys.readouterr().out == ""
    assert run(["check", "--format", "json", hopeless, missing, good]) == 3
    rows = json.loads(capsys.readouterr().out)
    assert [row.get("convertible", row.get("error")) for row in rows] == [False, "FormatError", True]
