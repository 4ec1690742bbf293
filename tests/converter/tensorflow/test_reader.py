"""Graph files: what they hold in which order, what of them is read, and what is damaged."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import minnow
from minnow.converter import read
from minnow.converter.formats import detect
from minnow.converter.tensorflow import frontend
from minnow.converter.tensorflow.message import GraphDef
from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError, UsageError
from minnow.schema.mnn import encode

SHARED = Path(__file__).parents[4] / "shared/models/tensorflow"


def tensor(array):
    array = np.asarray(array)
    codes = {"float32": 1, "int32": 3, "bool": 10, "int64": 9}
    shape = {"dim": [{"size": d} for d in array.shape]}
    return {"dtype": codes[array.dtype.name], "tensor_shape": shape, "tensor_content": array.tobytes()}


def node(name, op, *inputs, **attrs):
    return {"name": name, "op": op, "input": list(inputs), "attr": attrs}


def const(name, array):
    return node(name, "Const", dtype={"type": 1}, value={"tensor": tensor(array)})


def placeholder(name, *shape, dtype=1):
    return node(name, "Placeholder", dtype={"type": dtype}, shape={"shape": {"dim": [{"size": d} for d in shape]}})


def write(folder, *nodes, name="graph.pb", producer=1000, **more):
    graph = GraphDef(node=list(nodes), versions={"producer": producer}, **more)
    path = folder / name
    path.write_bytes(graph.SerializeToString())
    return path


def run(path, feed, **options):
    return minnow.load(encode(read(path, **options))).run(feed)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_nodes_stand_in_any_order(tmp_path):
    path = write(tmp_path, node("y", "Mul", "s", "x"), node("s", "AddV2", "x", "c"), const("c", np.float32(2)),
                 placeholder("x", 2, 3))  # fmt: skip
    assert detect(path).frontend() is frontend
    np.testing.assert_array_equal(run(path, {"x": X})["y"], (X + 2) * X)


def test_text_form(tmp_path):
    path = write(tmp_path, placeholder("x", 2, 3), node("y", "Neg", "x"))
    text = tmp_path / "graph.pbtxt"
    text.write_text(text_format.MessageToString(GraphDef.FromString(path.read_bytes())))
    assert detect(text).frontend() is frontend
    np.testing.assert_array_equal(run(text, {"x": X})["y"], -X)


def test_names_of_inputs_and_outputs(tmp_path):
    path = write(tmp_path, placeholder("in/x", -1, 4), const("axis", np.int32(1)),
                 node("parts", "Split", "axis", "in/x", num_split={"i": 2}), node("left", "Neg", "parts"))  # fmt: skip
    model = read(path, cut_outputs=["parts:1", "left:0", "parts"])
    assert [name for name, _ in model.inputs] == ["in/x"]
    assert [name for name, _ in model.outputs] == ["parts:1", "left", "parts"]
    assert model.inputs[0][1].shape == ("?", 4)
    assert read(path, inputs={"in/x:0": (5, 4)}).inputs[0][1].shape == (5, 4)


def test_outputs_are_what_nobody_reads(tmp_path):
    path = write(tmp_path, placeholder("x", 2, 3), node("a", "Neg", "x"), node("b", "Abs", "x"), node("init", "NoOp"),
                 node("watch", "Assert", "b"), const("left", X), placeholder("unused", 7))  # fmt: skip
    model = read(path)
    assert [name for name, _ in model.outputs] == ["a"]
    assert [name for name, _ in model.inputs] == ["x", "unused"]


def test_outputs_are_not_what_others_wait_for(tmp_path):
    path = write(tmp_path, placeholder("x", 2, 3), node("list", "Exp", "x"), node("step", "Abs", "x"),
                 node("done", "NoOp", "^step"), node("y", "Neg", "x", "^list", "^done"))  # fmt: skip
    assert [name for name, _ in read(path).outputs] == ["y"]
    np.testing.assert_array_equal(run(path, {"x": X})["y"], -X)
    # A group waits for results, and nobody waits for the group.
    path = write(tmp_path, placeholder("x", 2, 3), node("a", "Abs", "x"), node("b", "Neg", "x"),
                 node("all", "NoOp", "^a", "^b"))  # fmt: skip
    assert [name for name, _ in read(path).outputs] == ["a", "b"]


def test_control_inputs_do_not_count(tmp_path):
    path = write(tmp_path, placeholder("x", 2, 3), node("bad", "DecodeJpeg"), node("y", "Neg", "x", "^bad"))
    np.testing.assert_array_equal(run(path, {"x": X}, cut_outputs=["y"])["y"], -X)


def test_what_computes_a_cut_tensor_is_left_out(tmp_path):
    path = write(tmp_path, placeholder("file", dtype=7), node("image", "DecodeJpeg", "file"),
                 node("scaled", "Cast", "image", SrcT={"type": 4}, DstT={"type": 1}),
                 node("y", "Neg", "scaled"))  # fmt: skip
    with pytest.raises(UnsupportedError):
        read(path)
    model = read(path, cut_inputs=["image:0"], inputs={"image": (2, 3)})
    assert [(n, str(t)) for n, t in model.inputs] == [("image", "u8[2,3]")]
    found = run(path, {"image": X.astype(np.uint8)}, cut_inputs=["image"], inputs={"image": (2, 3)})
    np.testing.assert_array_equal(found["y"], -X)
    # The type of what can be computed is known.
    whole = write(tmp_path, placeholder("x", 2, -1), node("s", "Neg", "x"), node("y", "Abs", "s"), name="whole.pb")
    assert str(read(whole, cut_inputs=["s"]).inputs[0][1]) == "f32[2,?]"


def test_names_that_there_are_not(tmp_path):
    path = write(tmp_path, placeholder("x", 2, 3), node("net/y", "Neg", "x"))
    with pytest.raises(UsageError) as e:
        read(path, cut_outputs=["y"])
    assert "net/y" in e.value.hint
    with pytest.raises(UsageError):
        read(path, inputs={"z": (1,)})


def test_shapes_of_any_rank(tmp_path):
    weights = np.ones((1, 1, 3, 2), np.float32)
    attrs = {"strides": {"list": {"i": [1, 1, 1, 1]}}, "padding": {"s": b"SAME"}}
    nodes = [node("x", "Placeholder", dtype={"type": 1}, shape={"shape": {"unknown_rank": True}}), const("w", weights),
             node("y", "Conv2D", "x", "w", **attrs)]  # fmt: skip
    path = write(tmp_path, *nodes)
    assert read(path).inputs[0][1].rank == 4
    image = np.ones((2, 3, 4, 3), np.float32)
    np.testing.assert_array_equal(run(path, {"x": image})["y"], np.full((2, 3, 4, 2), 3, np.float32))
    # An old program wrote [] for any shape, a newer one means a number.
    nodes[0] = placeholder("x")
    assert read(write(tmp_path, *nodes, producer=21)).inputs[0][1].rank == 4
    with pytest.raises(ModelError):
        read(write(tmp_path, *nodes, producer=22))


def test_default_of_an_input(tmp_path):
    given = node("keep", "PlaceholderWithDefault", "c", dtype={"type": 1}, shape={"shape": {}})
    path = write(tmp_path, placeholder("x", 2, 3), const("c", np.float32(3)), given, node("y", "Mul", "x", "keep"))
    np.testing.assert_array_equal(run(path, {"x": X})["y"], 3 * X)
    found = run(path, {"x": X, "keep": np.float32(5)}, cut_inputs=["keep"])
    np.testing.assert_array_equal(found["y"], 5 * X)


def function(name, arguments, nodes, results):
    return {
        "signature": {
            "name": name,
            "input_arg": [{"name": a, "type": 1} for a in arguments],
            "output_arg": [{"name": r, "type": 1} for r in results],
        },
        "node_def": nodes,
        "ret": results,
    }


def call(name, function_name, *inputs):
    return node(name, "StatefulPartitionedCall", *inputs, f={"func": {"name": function_name}})


def test_functions_are_put_in(tmp_path):
    inner = function("inner", ["a"], [node("n", "TopKV2", "a", "two:output:0"), const("two", np.int32(2))],
                     {"v": "n:values:0", "i": "n:indices:0"})  # fmt: skip
    outer = function("outer", ["a"], [call("c", "inner", "a"), node("s", "Neg", "c:output:0")], {"r": "s:y:0"})
    path = write(tmp_path, placeholder("x", 2, 3), call("y", "outer", "x"), library={"function": [inner, outer]})
    np.testing.assert_array_equal(run(path, {"x": X})["y"], -np.sort(X)[:, ::-1][:, :2])


def test_functions_that_call_each_other(tmp_path):
    loop = function("loop", ["a"], [call("c", "loop", "a")], {"r": "c:output:0"})
    path = write(tmp_path, placeholder("x", 2, 3), call("y", "loop", "x"), library={"function": [loop]})
    with pytest.raises(ModelError):
        read(path)
    names = [f"f{i}" for i in range(40)]
    bomb = [function(n, ["a"], [call("b", m, "a"), call("c", m, "b:output:0")], {"r": "c:output:0"})
            for n, m in itertools.pairwise(names)]  # fmt: skip
    bomb.append(function(names[-1], ["a"], [node("n", "Neg", "a")], {"r": "n:y:0"}))
    path = write(tmp_path, placeholder("x", 2, 3), call("y", "f0", "x"), library={"function": bomb})
    with pytest.raises(ModelError):
        read(path)


def test_all_that_is_not_supported_is_listed(tmp_path):
    inner = function("inner", ["a"], [node("n", "Weird", "a")], {"r": "n:y:0"})
    path = write(tmp_path, placeholder("x", 2, 3), node("a", "StringJoin", "x"), node("b", "Strange", "a"),
                 node("c", "Strange", "x"), call("d", "inner", "x"), library={"function": [inner]})  # fmt: skip
    with pytest.raises(UnsupportedError) as e:
        read(path)
    assert {r.reason.split(" ")[0]: r.nodes for r in e.value.refused} == {
        "StringJoin": ("a",),
        "Strange": ("b", "c"),
        "Weird": ("d/n",),
    }


@pytest.mark.parametrize(
    ("what", "nodes"),
    [
        ("a cycle", [node("a", "Neg", "b"), node("b", "Neg", "a"), node("y", "Neg", "b")]),
        ("a node that is not there", [node("y", "Neg", "z")]),
        ("two of a name", [placeholder("x", 2), placeholder("x", 3), node("y", "Neg", "x")]),
        ("no nodes that compute", [placeholder("x", 2)]),
        ("too few inputs", [placeholder("x", 2), node("y", "MatMul", "x")]),
        ("no such output", [placeholder("x", 2), node("n", "Neg", "x"), node("y", "Neg", "n:7")]),
        ("no such function", [placeholder("x", 2), call("y", "nobody", "x")]),
        ("an attribute of another kind", [placeholder("x", 2, 3), node("y", "Cast", "x", DstT={"i": 3})]),
        ("a huge constant", [node("c", "Const", dtype={"type": 1}, value={"tensor": {
            "dtype": 1, "tensor_shape": {"dim": [{"size": 1 << 40}]}, "float_val": [1]}}), node("y", "Neg", "c")]),
        ("a short constant", [node("c", "Const", dtype={"type": 1}, value={"tensor": {
            "dtype": 1, "tensor_shape": {"dim": [{"size": 4}]}, "tensor_content": b"123"}}), node("y", "Neg", "c")]),
    ],
)  # fmt: skip
def test_invalid_graphs(tmp_path, what, nodes):
    with pytest.raises((ModelError, FormatError)):
        read(write(tmp_path, *nodes), framework="tensorflow")


def test_forms_of_constants(tmp_path):
    def value(**fields):
        shape = {"dim": [{"size": d} for d in fields.pop("shape")]}
        return node("c", "Const", dtype={"type": fields["dtype"]}, value={"tensor": {"tensor_shape": shape, **fields}})

    for constant, wanted in (
        (value(dtype=1, shape=(2, 3), float_val=[1, 2]), [[1, 2, 2], [2, 2, 2]]),
        (value(dtype=1, shape=(3,)), [0, 0, 0]),
        (value(dtype=19, shape=(2,), half_val=[0x3C00, 0x4000]), [1, 2]),
        (value(dtype=9, shape=(2,), int64_val=[-5, 7]), [-5, 7]),
        (value(dtype=4, shape=(2,), int_val=[250]), [250, 250]),
        (value(dtype=10, shape=(2,), bool_val=[True, False]), [1, 0]),
    ):
        nodes = [placeholder("x"), constant, node("d", "Cast", "c", DstT={"type": 1}), node("y", "Mul", "x", "d")]
        found = run(write(tmp_path, *nodes), {"x": np.float32(1)})["y"]
        np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_damaged_files(tmp_path):
    """Whatever is changed in a file, the answer is a model or an error of ours."""
    file = SHARED / "mtcnn_pnet_rnet_onet/pnet.pb"
    if not file.exists():
        pytest.skip("the model files are not here")
    data, path, draw = file.read_bytes(), tmp_path / "damaged.pb", random.Random(5)
    for i in range(150):
        damaged = bytearray(data)
        if i % 3 == 0:
            damaged = damaged[: draw.randrange(len(data))]
        for _ in range(draw.choice([1, 3, 30])):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged or b"\x0a")
        try:
            read(path, framework="tensorflow")
        except MinnowError:
            continue


@pytest.mark.parametrize(
    "file",
    ["mtcnn_pnet_rnet_onet/pnet.pb", "mtcnn_pnet_rnet_onet/rnet.pb", "mtcnn_pnet_rnet_onet/onet.pb",
     "tf2onnx_rnn/ae0_frozen.pb", "tf2onnx_rnn/gru_frozen.pb", "tf2onnx_rnn/lstm_frozen.pb"],
)  # fmt: skip
def test_recorded_results(tmp_path, file):
    """Frozen graphs give what TensorFlow gave."""
    if not (SHARED / file).exists():
        pytest.skip("the model files are not here")
    path = SHARED / file
    recorded = np.load(path.parent / "ref" / f"{path.name}.npz")
    values = {k.partition("__")[2].replace("|", "/").removesuffix(":0"): v for k, v in recorded.items()}
    target = tmp_path / "model.mnn"
    minnow.convert(path, output=target, verify=False)
    session = minnow.load(target)
    found = session.run({info.name: values[info.name] for info in session.inputs})
    assert len(found) + len(session.inputs) == len(values)
    for name, got in found.items():
        assert np.abs(got - values[name]).max() <= 1e-4 * np.abs(values[name]).max(), name
