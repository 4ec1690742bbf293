"""Operators that stand for a body: functions of the file, and those of the standard, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

from minnow.converter import read
from minnow.converter.base import Frontend
from minnow.converter.formats import Format
from minnow.converter.onnx.function import Library, type_proto
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, TensorType
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

MY = "my.domain"
FLOAT = onnx.AttributeProto.FLOAT
X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


def reference(name: str, to: str, type_: int) -> onnx.AttributeProto:
    """An attribute of an inner node that is the caller's attribute `to`."""
    return onnx.AttributeProto(name=name, ref_attr_name=to, type=type_)


def referring(node: onnx.NodeProto, *attributes: onnx.AttributeProto) -> onnx.NodeProto:
    node.attribute.extend(attributes)
    return node


def function(name, inputs, outputs, nodes, opset=17, attributes=(), defaults=()):
    return helper.make_function(
        MY,
        name,
        inputs,
        outputs,
        nodes,
        [helper.make_opsetid("", opset), helper.make_opsetid(MY, 1)],
        attributes,
        list(defaults),
    )


def saved(path: Path, nodes, functions, opset=17, outputs=("y",), shape=(3, 5), initializers=()) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MY, 1)]
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=9), str(path))
    return path


def run(path: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    model = read(path)
    verify(model)
    return evaluate(model.graph, list(arrays))


def judged(path: Path, *arrays: np.ndarray, rtol: float = 1e-5) -> None:
    got = run(path, *arrays)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    want = session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays, strict=True)))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=rtol, atol=1e-6)


def call(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, domain=MY, **attrs)


# ---- functions of the file


LEAKY = function(
    "Leaky",
    ["x"],
    ["y"],
    [
        referring(helper.make_node("LeakyRelu", ["x"], ["t"]), reference("alpha", "slope", FLOAT)),
        helper.make_node("Neg", ["t"], ["y"]),
    ],
    defaults=[helper.make_attribute("slope", 0.25)],
)


@pytest.mark.parametrize("attrs", [{}, {"slope": 0.5}, {"slope": -2.0}])
def test_an_attribute_of_the_call_reaches_the_body_or_its_default_does(tmp_path, attrs):
    judged(saved(tmp_path / "m.onnx", [call("Leaky", ["x"], ["y"], **attrs)], [LEAKY]), X)


def test_an_attribute_without_default_that_is_not_given_is_the_inner_operators_own(tmp_path):
    inner = referring(helper.make_node("LeakyRelu", ["x"], ["y"]), reference("alpha", "slope", FLOAT))
    plain = function("Plain", ["x"], ["y"], [inner], attributes=["slope"])
    (got,) = run(saved(tmp_path / "m.onnx", [call("Plain", ["x"], ["y"])], [plain]), X)
    np.testing.assert_allclose(got, np.where(X < 0, np.float32(0.01) * X, X), rtol=1e-6)


def test_names_of_bodies_and_of_the_graph_do_not_meet(tmp_path):
    """Everybody has a 't', parameters are called as other values are, and both functions are called twice."""
    outer = function(
        "Outer",
        ["y", "x"],
        ["t"],
        [
            referring(call("Leaky", ["y"], ["a"]), reference("slope", "slope", FLOAT)),
            call("Leaky", ["x"], ["x2"]),
            helper.make_node("Sub", ["a", "x2"], ["t"]),
        ],
        defaults=[helper.make_attribute("slope", 2.0)],
    )
    nodes = [
        helper.make_node("Exp", ["x"], ["t"]),
        call("Outer", ["x", "t"], ["u"]),
        call("Outer", ["u", "x"], ["v"], slope=0.75),
        helper.make_node("Add", ["v", "t"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [outer, LEAKY])
    judged(path, X)
    origins = [n.origin for n in read(path).graph]
    assert "onnx:u/a/t" in origins
    assert "onnx:v/x2/y" in origins


@pytest.mark.parametrize("sign", [1, 0])
def test_references_inside_of_branches(tmp_path, sign):
    branches = {
        k: helper.make_graph(
            [referring(helper.make_node("Elu", ["x"], [k]), reference("alpha", "alpha", FLOAT)),
             referring(helper.make_node("Constant", [], [f"{k}c"]), reference("value_float", "alpha", FLOAT)),
             helper.make_node(op, [k, f"{k}c"], [f"{k}y"])],
            k, [], [helper.make_tensor_value_info(f"{k}y", TensorProto.FLOAT, None)])
        for k, op in (("yes", "Add"), ("no", "Mul"))
    }  # fmt: skip
    choose = function(
        "Choose",
        ["x"],
        ["y"],
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Constant", [], ["zero"], value_float=0.0),
            helper.make_node("Greater", ["sum", "zero"], ["positive"]),
            helper.make_node("If", ["positive"], ["y"], then_branch=branches["yes"], else_branch=branches["no"]),
        ],
        attributes=["alpha"],
    )
    path = saved(tmp_path / "m.onnx", [call("Choose", ["x"], ["y"], alpha=1.5)], [choose])
    judged(path, np.abs(X) if sign else -np.abs(X))


def test_branches_in_a_body_that_declare_no_types(tmp_path):
    """As in the bodies of the standard; the rank of what they give is not known either."""
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x"], ["t"]), helper.make_node("Reshape", ["t", "shape"], ["r"])],
            op,
            [],
            [onnx.ValueInfoProto(name="r")],
        )
        for op in ("Neg", "Exp")
    ]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["yes"], to=TensorProto.BOOL),
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Compress", ["all", "kept"], ["shape"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    choose = function("Choose", ["x", "kept"], ["y"], nodes)
    kept = numpy_helper.from_array(np.array([True, True]), "kept")
    path = saved(
        tmp_path / "m.onnx", [call("Choose", ["x", "kept"], ["y"])], [choose], shape=("N", "M"), initializers=[kept]
    )
    (got,) = run(path, X)
    np.testing.assert_allclose(got, -X, rtol=1e-6)


@pytest.mark.parametrize("given", [[], ["lo"], ["", "hi"], ["lo", "hi"]])
def test_operands_that_are_not_given_are_not_given_inside_either(tmp_path, given):
    inner = function("Inner", ["x", "a", "b"], ["y"], [helper.make_node("Clip", ["x", "a", "b"], ["y"])])
    outer = function("Outer", ["x", "lo", "hi"], ["y"], [call("Inner", ["x", "lo", "hi"], ["y"])])
    bounds = [numpy_helper.from_array(np.float32(v), n) for n, v in (("lo", -0.5), ("hi", 0.25))]
    path = saved(tmp_path / "m.onnx", [call("Outer", ["x", *given], ["y"])], [inner, outer], initializers=bounds)
    (got,) = run(path, X)
    np.testing.assert_array_equal(
        got, np.clip(X, -0.5 if "lo" in given else -np.inf, 0.25 if "hi" in given else np.inf)
    )


def test_a_body_has_the_opset_that_it_imports(tmp_path):
    """Softmax of opset 11 normalizes everything from its axis on, that of 13 the axis alone."""
    old = function("Old", ["x"], ["y"], [helper.make_node("Softmax", ["x"], ["y"], axis=0)], opset=11)
    nodes = [call("Old", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=0)]
    (got,) = run(saved(tmp_path / "m.onnx", nodes, [old]), X)
    a = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(got, np.exp(a) / np.exp(a).sum(0), rtol=1e-5)


def test_results_that_the_call_does_not_ask_for(tmp_path):
    two = function("Two", ["x"], ["a", "b"],
                   [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])])  # fmt: skip
    judged(saved(tmp_path / "m.onnx", [call("Two", ["x"], ["", "y"])], [two]), X)


def test_a_result_that_is_a_parameter(tmp_path):
    through = function("Through", ["x"], ["y", "x"], [helper.make_node("Exp", ["x"], ["y"])])
    nodes = [call("Through", ["x"], ["e", "same"]), helper.make_node("Add", ["e", "same"], ["y"])]
    (got,) = run(saved(tmp_path / "m.onnx", nodes, [through]), X)
    np.testing.assert_allclose(got, np.exp(X) + X, rtol=1e-6)


@pytest.mark.skipif("overload" not in onnx.NodeProto.DESCRIPTOR.fields_by_name, reason="onnx before 1.16 has none")
def test_functions_of_one_name_are_told_apart_by_their_overload(tmp_path):
    functions, nodes = [], []
    for overload, op in (("up", "Exp"), ("down", "Neg")):
        functions.append(function("Same", ["x"], ["y"], [helper.make_node(op, ["x"], ["y"])]))
        functions[-1].overload = overload
        nodes.append(call("Same", ["x"], [overload]))
        nodes[-1].overload = overload
    path = saved(tmp_path / "m.onnx", [*nodes, helper.make_node("Sub", ["up", "down"], ["y"])], functions)
    (got,) = run(path, X)
    np.testing.assert_allclose(got, np.exp(X) + X, rtol=1e-6)


def test_functions_that_call_each_other_are_refused(tmp_path):
    one = function("One", ["x"], ["y"], [call("Other", ["x"], ["y"])])
    other = function("Other", ["x"], ["y"], [call("One", ["x"], ["y"])])
    with pytest.raises(ModelError, match="calls itself"):
        read(saved(tmp_path / "m.onnx", [call("One", ["x"], ["y"])], [one, other]))


def test_what_a_body_lacks_is_told_from_inside(tmp_path):
    inner = function("Inner", ["x"], ["y"], [helper.make_node("Frobnicate", ["x"], ["y"], name="deep")])
    outer = function("Outer", ["x"], ["y"], [call("Inner", ["x"], ["y"], name="middle")])
    nodes = [call("Outer", ["x"], ["a"], name="top"), helper.make_node("Mystery", ["a"], ["y"], name="flat")]
    with pytest.raises(UnsupportedError) as e:
        read(saved(tmp_path / "m.onnx", nodes, [inner, outer]))
    assert list(e.value.items) == [
        f"Frobnicate, in the body of {MY}::Inner: 1 node: top/middle/deep",
        "Mystery: 1 node: flat",
    ]


def test_an_error_inside_names_the_way_to_it(tmp_path):
    bad = function("Bad", ["x"], ["y"], [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1, 2], name="turn")])
    with pytest.raises(ModelError) as e:
        read(saved(tmp_path / "m.onnx", [call("Bad", ["x"], ["y"], name="here")], [bad]))
    assert e.value.where == "onnx:here/turn"


def test_functions_that_grow_without_bound_are_refused(tmp_path):
    """40 functions of two calls each come to 2**40 nodes."""
    chain = [function("F0", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])])]
    chain += [
        function(f"F{i + 1}", ["x"], ["y"], [call(f"F{i}", ["x"], ["t"]), call(f"F{i}", ["t"], ["y"])])
        for i in range(40)
    ]
    with pytest.raises(ModelError, match="far larger than its file"):
        read(saved(tmp_path / "m.onnx", [call("F40", ["x"], ["y"])], chain))


def test_functions_that_nest_too_deep_are_refused(tmp_path):
    chain = [function("F0", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])])]
    chain += [function(f"F{i + 1}", ["x"], ["y"], [call(f"F{i}", ["x"], ["y"])]) for i in range(500)]
    (got,) = run(saved(tmp_path / "m.onnx", [call("F40", ["x"], ["y"])], chain), X)
    np.testing.assert_array_equal(got, -X)
    with pytest.raises(ModelError, match="nest"):
        read(saved(tmp_path / "m.onnx", [call("F500", ["x"], ["y"])], chain))


def test_a_body_of_an_opset_to_come_is_refused(tmp_path):
    future = function("Future", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], opset=99)
    with pytest.raises(UnsupportedError, match="opset 99") as e:
        read(saved(tmp_path / "m.onnx", [call("Future", ["x"], ["y"])], [future]))
    assert "Future" in str(e.value)


def test_too_many_operands_for_a_function(tmp_path):
    with pytest.raises(ModelError, match="at most 1 inputs, not 2"):
        read(saved(tmp_path / "m.onnx", [call("Leaky", ["x", "x"], ["y"])], [LEAKY]))


# ---- functions of the standard


def attention(path: Path, layers: int, shape, opset=23, **attrs) -> Path:
    nodes = [
        helper.make_node("Attention", [f"x{i}"] * 3, [f"x{i + 1}"], **{"q_num_heads": 2, "kv_num_heads": 2, **attrs})
        for i in range(layers)
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), str(path))
    return path


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("shape", [(2, 7, 6), ("B", "S", 6), ("B", "S", "C")])
def test_attention_by_its_body(tmp_path, shape, causal, opset):
    x = np.random.default_rng(1).standard_normal((2, 7, 6)).astype(np.float32)
    judged(attention(tmp_path / "m.onnx", 2, shape, opset, is_causal=causal), x)


def cached_attention(path: Path, arrays: dict[str, np.ndarray], outputs: list[str], open_: bool, **attrs) -> None:
    """One Attention of opset 23 with whatever operands are given, of known or of dynamic dimensions."""
    order = ["q", "k", "v", "mask", "past_k", "past_v"]
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL}
    graph = helper.make_graph(
        [helper.make_node("Attention", [n if n in arrays else "" for n in order], outputs, **attrs)],
        "g",
        [
            helper.make_tensor_value_info(
                n, types[a.dtype], [f"{n}{i}" for i in range(a.ndim)] if open_ else list(a.shape)
            )
            for n, a in arrays.items()
        ],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), str(path))


@pytest.mark.parametrize("open_", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("heads", [(6, 6), (6, 3), (6, 1)])
@pytest.mark.parametrize(
    ("mask", "attrs"),
    [(None, {}), ("float", {"softcap": 2.0}), ("bool", {"scale": 0.3}), (None, {"is_causal": 1})],
    ids=["plain", "capped", "masked", "causal"],
)
def test_attention_with_a_cache_and_shared_heads(tmp_path, open_, heads, mask, attrs):
    rng = np.random.default_rng(5)
    q_heads, kv_heads = heads
    batch, new, past, size = 2, 3, 4, 5
    shapes = {
        "q": (batch, q_heads, new, size),
        **dict.fromkeys(("k", "v"), (batch, kv_heads, new, size)),
        **dict.fromkeys(("past_k", "past_v"), (batch, kv_heads, past, size)),
    }
    arrays = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    if mask:
        numbers = rng.standard_normal((new, past + new)).astype(np.float32)
        arrays["mask"] = numbers if mask == "float" else (numbers > -1) | np.eye(new, past + new, past, dtype=bool)
    cached_attention(tmp_path / "m.onnx", arrays, ["y", "present_k", "present_v"], open_, **attrs)
    judged(tmp_path / "m.onnx", *arrays.values())


def test_a_deep_model_of_standard_functions_stays_small(tmp_path):
    """What the body computes from shapes alone is gone while the file is read."""
    graph = read(attention(tmp_path / "m.onnx", 12, (1, 16, 32), is_causal=1)).graph
    assert len(graph) < 12 * 60
    assert not [n for n in graph if n.op in ("Shape", "Range", "If")]


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_with_mean_and_deviation(tmp_path, outputs, bias):
    """Inside of a function of the file that passes a bias on or has none: the standard's body depends on it."""
    names = ["y", "mean", "dev"][:outputs]
    inner = function(
        "Norm", ["x", "s", "b"], names, [helper.make_node("LayerNormalization", ["x", "s", "b"], names, epsilon=0.25)]
    )
    rng = np.random.default_rng(2)
    weights = [numpy_helper.from_array(rng.standard_normal(5).astype(np.float32), n) for n in ("s", "b")]
    node = call("Norm", ["x", "s", "b"] if bias else ["x", "s"], names)
    path = saved(tmp_path / "m.onnx", [node], [inner], outputs=names, initializers=weights)
    got = run(path, X)
    s, b = (numpy_helper.to_array(w) for w in weights)
    mean = X.mean(1, keepdims=True)
    dev = 1 / np.sqrt(X.var(1, keepdims=True) + 0.25)
    want = [(X - mean) * dev * s + (b if bias else 0), mean, dev]
    for g, w in zip(got, want[:outputs], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)


def test_a_body_of_the_file_comes_before_that_of_the_standard():
    mine = helper.make_function("", "Gelu", ["X"], ["Y"], [helper.make_node("Neg", ["X"], ["Y"])],
                                [helper.make_opsetid("", 20)])  # fmt: skip
    node = helper.make_node("Gelu", ["x"], ["y"])
    body = Library([mine]).local(node, {"": 20})
    assert body is not None
    assert [n.op_type for n in body.nodes] == ["Neg"]
    assert Library().local(node, {"": 20}) is None


SCHEMAS = [s for s in defs.get_all_schemas_with_history() if s.has_function and s.domain == ""]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: f"{s.name}-{s.since_version}")
def test_no_reference_is_left_in_a_body_of_the_standard(schema):
    version = max(schema.function_opset_versions)
    attrs = {
        k: helper.get_attribute_value(a.default_value) if a.default_value.name else 1
        for k, a in schema.attributes.items()
        if a.required
    }
    node = helper.make_node(schema.name, ["x"] * schema.min_input, ["y"] * schema.min_output, **attrs)
    body = Library.standard(node, {"": version}, None)
    assert body is not None
    assert body.opsets[""] <= version
    assert not [a for n in body.nodes for a in n.attribute if a.ref_attr_name]


def test_types_in_the_form_of_the_standard():
    proto = type_proto(TensorType(DType.F16, (2, "N", UNKNOWN, 0))).tensor_type
    assert proto.elem_type == TensorProto.FLOAT16
    assert [d.WhichOneof("value") for d in proto.shape.dim] == ["dim_value", "dim_param", None, "dim_value"]
    assert not type_proto(TensorType(DType.F32)).tensor_type.HasField("shape")
    assert type_proto(None).WhichOneof("value") is None


# ---- which mapping applies


def test_the_mapping_for_the_fewest_versions_wins_in_any_order():
    for order in ((1, 2, 3), (3, 2, 1)):
        frontend = Frontend(Format("f", lambda *_: False, ()), lambda *_: None, lambda *_: None)
        ranges = {1: {}, 2: {"until": 6}, 3: {"since": 11}}
        for k in order:
            frontend.op("Op", **ranges[k])(lambda b, x, _k=k: _k)
        found = {v: frontend.find("Op", v).function(None, None) for v in (1, 6, 7, 10, 11, 99)}
        assert found == {1: 2, 6: 2, 7: 1, 10: 1, 11: 3, 99: 3}


def test_a_mapping_can_leave_a_call_to_the_body(monkeypatch, tmp_path):
    from minnow.converter.onnx import frontend

    monkeypatch.setitem(frontend.mappings, "Gelu", [])
    frontend.op("Gelu")(lambda b, x: NotImplemented)
    assert frontend.find("Gelu", 20) is not None
    path = saved(tmp_path / "m.onnx", [helper.make_node("Gelu", ["x"], ["y"])], [], opset=20)
    judged(path, X)
