"""Reading ONNX files: what is refused, how, and what must survive."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from minnow.converter import read
from minnow.schema.errors import FormatError, ModelError, UnsupportedError, UsageError
from minnow.schema.ir import MappedBlob
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

F = TensorProto.FLOAT


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path: Path, nodes, inputs, outputs, initializers=(), opset=17, **kwargs) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **kwargs)
    onnx.save(model, str(path))
    return path


def simple(path: Path, **kwargs) -> Path:
    return save(
        path, [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["N", 3])], [value("y", ["N", 3])], **kwargs
    )


def judged(path: Path, inputs: dict[str, np.ndarray]) -> None:
    """The graph as it was read is sound, and gives onnxruntime's numbers."""
    model = read(path)
    verify(model)
    got = evaluate(model.graph, [inputs[n] for n, _ in model.inputs])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    want = session.run([n for n, _ in model.outputs], inputs)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_symbols_names_and_order_survive(tmp_path):
    model = read(simple(tmp_path / "m.onnx"))
    assert [(n, str(t)) for n, t in model.inputs] == [("x", "f32[N,3]")]
    assert [(n, str(t)) for n, t in model.outputs] == [("y", "f32[N,3]")]


def test_shapes_can_be_fixed(tmp_path):
    model = read(simple(tmp_path / "m.onnx"), inputs={"x": (4, 3)})
    assert str(model.outputs[0][1]) == "f32[4,3]"


@pytest.mark.parametrize("shape", [(4, 5), (4,), (1, 2, 3)])
def test_shapes_that_contradict_the_file_are_refused(tmp_path, shape):
    with pytest.raises(UsageError, match="'x'"):
        read(simple(tmp_path / "m.onnx"), inputs={"x": shape})


def test_an_unknown_input_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no input 'z'"):
        read(simple(tmp_path / "m.onnx"), inputs={"z": (1,)})


NOISE = np.random.default_rng(0).bytes(4096)


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"not a model at all", NOISE], ids=["nothing", "zeros", "text", "noise"]
)
def test_garbage_is_a_format_error(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        read(path)


def test_a_missing_file_is_a_format_error(tmp_path):
    with pytest.raises(FormatError, match="cannot read"):
        read(tmp_path / "nothing.onnx")


def test_truncation_never_gives_anything_but_our_errors(tmp_path):
    weights = numpy_helper.from_array(np.ones((3, 5), np.float32), "w")
    whole = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", [2, 3])],
        [value("y", [2, 5])],
        [weights],
    ).read_bytes()
    cut = tmp_path / "cut.onnx"
    refused = 0
    for n in range(len(whole) - 1):
        cut.write_bytes(whole[:n])
        try:
            read(cut)
        except (FormatError, ModelError, UnsupportedError):
            refused += 1
    # Protobuf fields may be left out, so a cut between two of them can be a valid, smaller model.
    assert refused > 0.9 * len(whole)


def test_all_unknown_operators_are_listed_at_once(tmp_path):
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
        helper.make_node("Frobnicate", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Mystery", ["c"], ["y"], name="third", domain="my.domain"),
    ]
    path = tmp_path / "m.onnx"
    graph = helper.make_graph(nodes, "g", [value("x", [1])], [value("y", [1])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), str(path))
    with pytest.raises(UnsupportedError) as e:
        read(path)
    assert len(e.value.items) == 2
    text = str(e.value)
    for part in ("Frobnicate: 2 nodes: first, second", "my.domain::Mystery: 1 node: third"):
        assert part in text


@pytest.mark.parametrize("opset", [0, 99])
def test_opsets_out_of_range_are_refused_with_the_range(tmp_path, opset):
    with pytest.raises(UnsupportedError, match=f"opset {opset} is not supported"):
        read(simple(tmp_path / "m.onnx", opset=opset))


def test_a_value_that_is_read_before_it_is_computed_is_named(tmp_path):
    nodes = [helper.make_node("Relu", ["a"], ["y"], name="late"), helper.make_node("Relu", ["x"], ["a"])]
    with pytest.raises(ModelError, match="'a' is read before") as e:
        read(save(tmp_path / "m.onnx", nodes, [value("x", [1])], [value("y", [1])]))
    assert "late" in e.value.where


def test_a_name_computed_twice_is_refused(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    with pytest.raises(ModelError, match="'y' is computed twice"):
        read(save(tmp_path / "m.onnx", nodes, [value("x", [1])], [value("y", [1])]))


@pytest.mark.parametrize("kind", ["input", "output", "initializer"])
def test_two_of_one_name_are_refused(kind, tmp_path):
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    sides = {"input": [value("x", [1])], "output": [value("y", [1])]}
    weights = [numpy_helper.from_array(np.ones(1, np.float32), "w")]
    if kind in sides:
        sides[kind] *= 2
    else:
        weights *= 2
    with pytest.raises(ModelError, match=f"there are 2 {kind}s named"):
        read(save(tmp_path / "m.onnx", nodes, sides["input"], sides["output"], weights))


@pytest.mark.parametrize("nodes", [["a", "b"], ["b"]])
def test_a_cycle_names_a_node_on_it(nodes, tmp_path):
    table = {
        "a": helper.make_node("Add", ["x", "v"], ["u"], name="a"),
        "b": helper.make_node("Add", ["u" if "a" in nodes else "v", "x"], ["v"], name="b"),
    }
    last = helper.make_node("Relu", ["v"], ["y"])
    with pytest.raises(ModelError, match="before it is computed") as e:
        read(save(tmp_path / "m.onnx", [*(table[n] for n in nodes), last], [value("x", [1])], [value("y", [1])]))
    assert e.value.where == f"onnx:{nodes[0]}"


def test_shapes_that_do_not_fit_name_the_node(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="bad")]
    weights = numpy_helper.from_array(np.ones((4, 5), np.float32), "w")
    with pytest.raises(ModelError) as e:
        read(save(tmp_path / "m.onnx", nodes, [value("x", [2, 3])], [value("y", [2, 5])], [weights]))
    assert "bad" in e.value.where


# ---- external data


def external(tmp_path: Path, location: str) -> Path:
    array = np.arange(15, dtype=np.float32).reshape(3, 5)
    tensor = numpy_helper.from_array(array, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", "60")):
        tensor.external_data.add(key=key, value=text)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return save(tmp_path / "m.onnx", nodes, [value("x", [2, 3])], [value("y", [2, 5])], [tensor])


def test_external_data_is_mapped_not_copied(tmp_path):
    path = external(tmp_path, "weights.bin")
    (tmp_path / "weights.bin").write_bytes(np.arange(15, dtype=np.float32).tobytes())
    (weights,) = read(path).graph.constants()
    assert isinstance(weights.data, MappedBlob)
    np.testing.assert_array_equal(weights.array, np.arange(15).reshape(3, 5))
    judged(path, {"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "sub/../../secret.bin"])
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 60)
    with pytest.raises(FormatError, match="outside of the model's folder"):
        read(external(folder, location))


def test_links_are_refused(tmp_path):
    (tmp_path / "real.bin").write_bytes(b"\0" * 60)
    (tmp_path / "weights.bin").symlink_to(tmp_path / "real.bin")
    with pytest.raises(FormatError, match="is a link"):
        read(external(tmp_path, "weights.bin"))
    (tmp_path / "weights.bin").unlink()
    os.link(tmp_path / "real.bin", tmp_path / "weights.bin")
    with pytest.raises(FormatError, match="hard link"):
        read(external(tmp_path, "weights.bin"))


@pytest.mark.parametrize(("size", "message"), [(None, "is missing"), (59, "too short")])
def test_missing_or_short_external_data_is_refused(tmp_path, size, message):
    path = external(tmp_path, "weights.bin")
    if size is not None:
        (tmp_path / "weights.bin").write_bytes(b"\0" * size)
    with pytest.raises(FormatError, match=message):
        read(path)


# ---- control flow


def test_captures_become_operands_and_constants_stay_inside(tmp_path):
    then = helper.make_graph([helper.make_node("Add", ["x", "c"], ["t"])], "then", [], [value("t", [3])])
    other = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["e"])], "else", [], [value("e", [3])])
    nodes = [helper.make_node("If", ["cond"], ["y"], then_branch=then, else_branch=other, name="choice")]
    constant = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "c")
    inputs = [value("cond", [], TensorProto.BOOL), value("x", [3])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [value("y", [3])], [constant])
    (node,) = list(read(path).graph)
    assert node.op == "If"
    assert [v.name for v in node.inputs] == ["cond", "x"]
    for cond in (True, False):
        judged(path, {"cond": np.array(cond), "x": np.array([3, 4, 5], np.float32)})


def test_loops_carry_and_stack(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "step"], ["sum_out"]),
            helper.make_node("Mul", ["sum_out", "two"], ["scan"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("sum", [2])],
        [value("go_out", [], TensorProto.BOOL), value("sum_out", [2]), value("scan", [2])],
    )
    nodes = [helper.make_node("Loop", ["trips", "", "start"], ["last", "all"], body=body)]
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    inputs = [value("trips", [], TensorProto.INT64), value("start", [2]), value("step", [2])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [value("last", [2]), value("all", ["n", 2])], [two])
    for trips in (0, 1, 5):
        judged(path, {"trips": np.array(trips), "start": np.ones(2, np.float32), "step": np.array([1, 10], np.float32)})


def test_scan_becomes_a_loop(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["s_out"]), helper.make_node("Identity", ["s_out"], ["y"])],
        "body",
        [value("s", [2]), value("x", [2])],
        [value("s_out", [2]), value("y", [2])],
    )
    for backwards in (0, 1):
        nodes = [
            helper.make_node(
                "Scan", ["s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1, scan_input_directions=[backwards]
            )
        ]
        path = save(
            tmp_path / "m.onnx",
            nodes,
            [value("s0", [2]), value("xs", [5, 2])],
            [value("last", [2]), value("ys", [5, 2])],
        )
        judged(path, {"s0": np.zeros(2, np.float32), "xs": np.arange(10, dtype=np.float32).reshape(5, 2)})


# ---- mappings whose arithmetic is the frontend's own


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding(tmp_path, auto_pad, stride):
    weights = np.random.default_rng(0).standard_normal((2, 1, 4, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, strides=[stride, stride])
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value("x", [1, 1, 9, 8])],
        [value("y", None)],
        [numpy_helper.from_array(weights, "w")],
    )
    judged(path, {"x": np.random.default_rng(1).standard_normal((1, 1, 9, 8)).astype(np.float32)})


@pytest.mark.parametrize("output_shape", [[8, 9], [9, 10], [10, 11], [7, 7]])
def test_transposed_convolution_to_a_shape(tmp_path, output_shape):
    weights = np.random.default_rng(0).standard_normal((1, 2, 3, 3)).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=output_shape, strides=[2, 2])
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value("x", [1, 1, 4, 5])],
        [value("y", None)],
        [numpy_helper.from_array(weights, "w")],
    )
    judged(path, {"x": np.random.default_rng(1).standard_normal((1, 1, 4, 5)).astype(np.float32)})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)]),
        ("bij,bjk->bik", [(4, 2, 3), (4, 3, 5)]),
        ("...ij,...jk->...ik", [(4, 2, 3), (4, 3, 5)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("i,i", [(3,), (3,)]),
    ],
)
@pytest.mark.parametrize("static", [True, False])
def test_einsum(tmp_path, equation, shapes, static):
    names = [f"x{i}" for i in range(len(shapes))]
    declared = [s if static else [f"d{i}{k}" for k in range(len(s))] for i, s in enumerate(shapes)]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    path = save(
        tmp_path / "m.onnx", [node], [value(n, s) for n, s in zip(names, declared, strict=True)], [value("y", None)]
    )
    rng = np.random.default_rng(0)
    judged(path, {n: rng.standard_normal(s).astype(np.float32) for n, s in zip(names, shapes, strict=True)})


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_softmax_of_both_kinds(tmp_path, opset, op, axis):
    attrs = {} if axis is None else {"axis": axis}
    path = save(tmp_path / "m.onnx", [helper.make_node(op, ["x"], ["y"], **attrs)], [value("x", [2, 3, 4])],
                [value("y", [2, 3, 4])], opset=opset)  # fmt: skip
    judged(path, {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)})
