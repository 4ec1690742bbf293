"""The second graph of models with small integers: MNN's forms only, and the numbers of the first one but for a step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from sampling import one_in

import minnow
from minnow.optimizer import optimize
from minnow.optimizer.facts.format import engine_only, foreign_values
from minnow.optimizer.portable import NoFormError, portable
from minnow.optimizer.portable.sharing import pack_weights
from minnow.optimizer.portable.steps import choose_steps
from minnow.schema.errors import FormatError
from minnow.schema.ir import DType, Graph, Model, QuantizedBlob, TensorType, Value
from minnow.schema.ir.text import parse
from minnow.schema.mnn import decode, encode, wire
from minnow.schema.mnn.form import FileForm
from minnow.schema.notice import kind_of
from minnow.schema.ops import Builder, Sample, get

Array = np.ndarray[Any, Any]
OPS = ("QuantizedConv", "QuantizedMatMul", "QuantizedSum", "Requantize", "LookUp", "QuantizeLinear",
       "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")  # fmt: skip
KNOWN = frozenset(["float32", "int32", "int8", "uint8", "int16", "uint16", "bool"])
"""Element types that a second graph has a form for."""


def model_of(name: str, sample: Sample) -> Model:
    """The op alone, with constants behind its first operand, as layers have them."""
    op, graph = get(name), Graph("main")
    operands = [
        None if a is None
        else Value.constant(a) if i
        else graph.add_param(TensorType(DType.of(a.dtype), a.shape), "x")
        for i, a in enumerate(sample.inputs)
    ]  # fmt: skip
    graph.outputs = list(Builder(graph).node(op, operands, sample.attrs, sample.n_outputs).outputs)
    made = Model(graph)
    made.inputs = [("x", graph.params[0].type)]
    made.outputs = [(f"y{i}", v.type) for i, v in enumerate(graph.outputs)]
    return made


def alone(model: Model) -> Model:
    """The second graph as a model of its own."""
    assert model.portable is not None
    return replace(model, graph=model.portable, portable=None)


def check_close(got: Array, right: Array, share: float = 0.05) -> None:
    """Within a step of 8 bits, or the last bits of f32; a few elements may differ."""
    assert got.shape == right.shape
    a, b = got.astype(np.float64), right.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
    a, b = (v[np.isfinite(b)] for v in (a, b))
    step = 1 if right.dtype.kind in "iu" else 0
    allowed = max(step, 2**-20 * np.abs(b).max(initial=0))
    assert np.abs(a - b).max(initial=0) <= allowed
    assert (np.abs(a - b) > 2**-20 * np.abs(b)).mean() <= share if a.size else True


@pytest.mark.parametrize("name", OPS)
def test_computes_what_the_op_does(name: str) -> None:
    """Run by Minnow's engine, which computes rounded tensors as MNN's runtime does."""
    for sample in list(get(name).cases())[:: one_in(4)]:
        model = model_of(name, sample)
        right = get(name).evaluate(sample.inputs, sample.attrs)[: sample.n_outputs]
        optimize(model, 0)
        types = {str(a.dtype) for a in (*sample.inputs, *right) if a is not None}
        if model.portable is None:
            of_integers = name == "QuantizeLinear" and sample.inputs[0].dtype != np.float32
            empty = any(a is not None and not a.size for a in sample.inputs)
            assert not types <= KNOWN or empty or of_integers or {"block_size", "steps"} & set(sample.attrs), sample
            continue
        assert not engine_only(model.portable)
        assert not foreign_values(model.portable)
        made = minnow.load(encode(alone(model)), threads=1).run({"x": sample.inputs[0]})
        for i, want in enumerate(right):
            # Fixed-point factors round twice, which samples of ties show.
            check_close(np.asarray(made[f"y{i}"]), np.asarray(want), 1.0 if name == "Requantize" else 0.05)


LAYER = """
graph g(%x: u8[1,3,6,6]) {{
  %y: u8[1,{outs},6,6] = QuantizedConv(%x, {w}, u8[](128), {zero}, _, f32[](0.01), u8[](100)) {{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1){more}, to=u8}}
  return %y
}}
"""  # noqa: E501


def layer(kind: str = "i8", zero: str = "_", group: int = 1) -> Model:
    numbers = ", ".join(str(n % 7 + 1) for n in range(3 if group > 1 else 6))
    shape, outs = ("3,1,1,1", 3) if group > 1 else ("2,3,1,1", 2)
    more = f", group={group}" if group > 1 else ""
    text = LAYER.format(w=f"{kind}[{shape}]({numbers})", zero=zero, outs=outs, more=more)
    graph = parse(text)
    model = Model(graph)
    model.inputs, model.outputs = [("x", graph.params[0].type)], [("y", graph.outputs[0].type)]
    return model


def optimized(model: Model) -> Model:
    optimize(model)
    return model


@pytest.mark.parametrize(
    ("model", "in_integers"),
    [
        (partial(layer), True),
        (partial(layer, "u8", "u8[](3)"), True),
        (partial(layer, group=3), True),
        (partial(layer, "u8", "u8[](3)", 3), False),  # MNN takes such weights for others
    ],
)
def test_layers_are_computed_in_integers_where_mnn_is_right(model: Any, in_integers: bool) -> None:
    made = optimized(model())
    net = wire.read(encode(made))
    convolutions = [op["main"] for op in net["oplists"] if op["type"].startswith("Convolution")]
    assert [("symmetricQuan" in c) for c in convolutions] == [in_integers]
    described = [row["quantInfo"] for row in net.get("extraTensorDescribe", [])]
    assert (len(described) >= 2) == in_integers
    text = next(n for n in made.notices if kind_of(n) == "second-graph")
    assert ("integers of 8 bits: 1 QuantizedConv" in text) == in_integers
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)
    first, second = (minnow.load(encode(m)).run({"x": x})["y"] for m in (made, alone(made)))
    check_close(second, first)


def test_the_engine_reads_the_first_graph_and_mnn_the_second() -> None:
    model = optimized(layer())
    data = encode(model)
    net = wire.read(data)
    own = net["extraInfo"]["minnow"]
    assert {op["type"] for op in own["nodes"]} == {"Input", "Const", "Extra"}
    assert "Extra" not in {op["type"] for op in net["oplists"]}
    rows = minnow.load(data).profile({"x": np.zeros((1, 3, 6, 6), np.uint8)}, 1)
    assert [row["op"] for row in rows if row["op"] != "Unpack"] == ["QuantizedConv"]  # Unpack: of layouts, on some CPUs
    again = decode(data)
    assert [n.op for n in again.graph] == ["QuantizedConv"]
    assert encode(optimized(again)) == data


def test_other_writers_leave_the_first_graph_out() -> None:
    """Then the second one is what the file is, also for the engine."""
    model = optimized(layer())
    net = wire.read(encode(model))
    del net["extraInfo"]["minnow"]
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)
    got, right = (minnow.load(data).run({"x": x})["y"] for data in (wire.write(net), encode(model)))
    check_close(got, right)


def test_weights_are_in_the_file_once() -> None:
    rng = np.random.default_rng(0)
    model = layer("u8", "u8[](3)")
    node = next(iter(model.graph))
    node.set_input(1, Value.constant(rng.integers(0, 256, (64, 3, 5, 5)).astype(np.uint8)))
    for value in model.graph.outputs:
        value.type = value.type.with_shape((1, 64, 2, 2))
    model.outputs = [("y", model.graph.outputs[0].type)]
    both = optimized(model)
    assert len(encode(both)) < len(encode(replace(both, portable=None))) + 4000


@pytest.mark.parametrize(("kind", "zero"), [(np.int8, None), (np.int8, 3), (np.uint8, 130), (np.uint8, None)])
def test_weights_of_products_are_in_the_file_once(kind: Any, zero: int | None) -> None:
    """They lie on their side in the second graph, where they are those of a convolution."""
    rng = np.random.default_rng(0)
    info = np.iinfo(kind)
    x, w = (rng.integers(info.min, info.max + 1, shape).astype(kind) for shape in ((5, 90), (90, 130)))
    factor = (rng.random(130) * 0.001 + 0.0001).astype(np.float32)
    operands = (x, w, kind(7), None if zero is None else kind(zero), None, factor, np.uint8(120))
    model = optimized(model_of("QuantizedMatMul", Sample(operands, {"to": DType.U8})))
    data = encode(model)
    assert len(data) < w.size + 9000
    (want,) = get("QuantizedMatMul").evaluate(operands, {"to": DType.U8})
    np.testing.assert_array_equal(minnow.load(data, threads=1).run({"x": x})["y0"], want)
    check_close(np.asarray(minnow.load(encode(alone(model))).run({"x": x})["y0"]), want)
    assert [row["op"] for row in minnow.load(data).profile({"x": x}, 1)] == ["QuantizedMatMul"]
    again = decode(data)
    assert encode(optimized(again)) == data


@pytest.mark.parametrize("form", [FileForm(flush=True), FileForm(tanh_gelu=True), FileForm(sparse=True)])
def test_other_forms_have_one_graph(form: FileForm) -> None:
    net = wire.read(encode(optimized(layer()), form=form))
    assert "minnow" not in net["extraInfo"]


@pytest.mark.parametrize("missing", ["nodes", "tensors"])
def test_an_empty_graph_is_refused(missing: str) -> None:
    net = wire.read(encode(optimized(layer())))
    del net["extraInfo"]["minnow"][missing]
    with pytest.raises(FormatError, match="its graph for Minnow is empty"):
        minnow.load(wire.write(net))
    with pytest.raises(FormatError):
        decode(wire.write(net))


@pytest.mark.parametrize("kind", ["Input", "Const"])
def test_an_op_without_output_is_refused(kind: str) -> None:
    net = wire.read(encode(optimized(layer())))
    op = next(op for op in net["extraInfo"]["minnow"]["nodes"] if op["type"] == kind)
    op["outputIndexes"] = np.zeros(0, np.int32)
    with pytest.raises(FormatError, match=f"an op of type {kind} has no output"):
        decode(wire.write(net))
    with pytest.raises(FormatError):
        minnow.load(wire.write(net))


def test_what_has_no_form_is_named() -> None:
    graph = parse("graph g(%x: i8[3]) {\n %y: i8[3] = Neg(%x)\n return %y\n}")
    with pytest.raises(NoFormError, match="Neg of small integers"):
        portable(graph)


def test_scales_of_sums_agree() -> None:
    """Where a tensor is part of two sums, its scale is that of both."""
    table = "i32[256](" + ", ".join(str(100 * (n - 128)) for n in range(256)) + ")"
    half = "i32[256](" + ", ".join(str(50 * (n - 128)) for n in range(256)) + ")"
    attrs = "{to=u8, min=0, max=255, zero=128}"
    graph = parse(
        f"graph g(%x: u8[4], %z: u8[4]) {{\n"
        f" %a: u8[4] = QuantizedSum(%x, i32[](1073741824), i32[](-5), {table}, %z, {half}) {attrs}\n"
        f" %b: u8[4] = QuantizedSum(%a, i32[](1073741824), i32[](-6), {table}, %z, {table}) {attrs}\n return %a, %b\n}}"
    )
    steps = choose_steps(graph)
    x, z = graph.params
    a, b = graph.outputs
    assert [n.output for n in steps.sums] == [b]  # z cannot be twice as large as x, and as a, in the first one
    assert steps.scale(a) == pytest.approx(steps.scale(z))
    assert steps.scale(x) > 0


def recurrent(kind: Any, zeros: bool) -> tuple[Model, Array, list[Array | None]]:
    rng = np.random.default_rng(5)
    w, r = (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (1, k, 160)).astype(kind) for k in (72, 40))
    scales = [np.full(1, 0.002, np.float32), (rng.random((1, 160)) / 200).astype(np.float32)]
    middles = [np.full(1, 3, kind), rng.integers(0, 9, (1, 160)).astype(kind)] if zeros else [None, None]
    operands = [w, r, rng.standard_normal((1, 320)).astype(np.float32), *[None] * 4, *scales, *middles]
    x = rng.standard_normal((6, 2, 72)).astype(np.float32)
    return optimized(model_of("DynamicLSTM", Sample((x, *operands), {"hidden": 40}, 3))), x, operands


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("zeros", [False, True])
def test_recurrent_weights_stay_integers(kind: Any, zeros: bool) -> None:
    """In both graphs, once in the file; the second one has the layer of floats with these weights."""
    model, x, (w, r, b, *rest) = recurrent(kind, zeros)
    assert [n.op for n in model.graph] == ["DynamicLSTM"]
    assert not engine_only(model.portable)
    assert not foreign_values(model.portable)
    assert len(encode(model)) < w.size + r.size + 9000
    plain = []
    for weights, scale, zero in zip((w, r), rest[4:6], rest[6:8], strict=True):
        middle = 0 if zero is None else zero.astype(np.float32).reshape(1, 1, -1)
        plain.append(((weights.astype(np.float32) - middle) * scale.reshape(1, 1, -1)).transpose(0, 2, 1))
    want = get("LSTM").evaluate([x, *plain, b], {"hidden": 40})
    got = minnow.load(encode(alone(model))).run({"x": x})
    for i, right in enumerate(want):
        np.testing.assert_allclose(got[f"y{i}"], right, atol=1e-5)
    first = minnow.load(encode(model)).run({"x": x})
    for i in range(3):
        np.testing.assert_allclose(first[f"y{i}"], got[f"y{i}"], atol=0.06)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_tables_and_products_stay_integers(kind: Any) -> None:
    """Rows of a table of integers become floats when they are taken, and weights when the model is loaded."""
    rng = np.random.default_rng(6)
    info = np.iinfo(kind)
    table, w = (rng.integers(info.min, info.max + 1, shape).astype(kind) for shape in ((400, 80), (80, 300)))
    graph = Graph("main")
    ids = graph.add_param(TensorType(DType.I32, (5,)), "x")
    b = Builder(graph)
    rows = b.Gather(Value.constant(table), ids, axis=0)
    graph.outputs = [b.Cast(b.MatMulInteger(rows, Value.constant(w), None, kind(7)), to=DType.F32)]
    model = Model(graph)
    model.inputs, model.outputs = [("x", ids.type)], [("y", graph.outputs[0].type)]
    optimize(model)
    assert not engine_only(model.portable)
    assert not foreign_values(model.portable)
    assert len(encode(model)) < table.size + w.size + 9000
    places = np.array([0, 399, 17, 17, 3], np.int32)
    want = table[places].astype(np.float32) @ (w.astype(np.float32) - 7)
    for made in (model, alone(model)):
        np.testing.assert_array_equal(minnow.load(encode(made)).run({"x": places})["y"], want)


def _convolution(weight: Array) -> tuple[Graph, Value]:
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F32, (1, weight.shape[1], 4, 4)), "x")
    w = Value.constant(weight, "w")
    graph.outputs = [Builder(graph).Conv(x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))]
    return graph, w


def test_float_layers_have_weights_of_bytes_where_these_are_the_same_floats() -> None:
    rng = np.random.default_rng(0)
    scales = np.exp(rng.uniform(-20, 5, 64)).astype(np.float32)
    codes = rng.integers(-127, 128, (64, 96)).astype(np.float32)
    codes[0], codes[1, 5], codes[2:9] = 0, -128, np.clip(codes[2:9], -70, 70)
    weight = (codes * scales[:, None]).reshape(64, 96, 1, 1)
    graph, _ = _convolution(weight)
    pack_weights(graph)
    packed = next(iter(graph)).input(1).data
    assert isinstance(packed, QuantizedBlob)
    np.testing.assert_array_equal(packed.numpy(), weight)


@pytest.mark.parametrize("change", ["one number", "a row", "range", "infinity"])
def test_other_weights_stay_floats(change: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (64, 96, 1, 1)).astype(np.float32)
    weight[:, 0] = 127
    if change == "one number":
        weight[7, 3] = np.nextafter(weight[7, 4], np.float32(np.inf))
    elif change == "a row":
        weight[9] = rng.normal(size=(96, 1, 1))
    else:
        weight[8, 8] = 1000 if change == "range" else np.inf
        weight[8, 9] = 3
    graph, w = _convolution(weight)
    pack_weights(graph)
    assert next(iter(graph)).input(1) is w
