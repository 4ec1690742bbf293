"""The text form of graphs: what it looks like, that it reads back to the same graph, and what it says of bad text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sampling import some_of

from minnow.schema.errors import FormatError, InternalError
from minnow.schema.ir import ArrayBlob, Blob, DType, Graph, Node, TensorType, Value
from minnow.schema.ir.text import parse, to_text

EXAMPLE = """\
graph main(%x: f32[N,3,224,224], %"odd name": i64[?]) {
  %y: f32[N,64,112,112] = Conv(%x, f32[64,3,7,7]#c0, _) {strides=(2, 2), pads=(3, 3, 3, 3)}  # onnx:/conv1
  %0: f32[2] = Max(f32[2](1.0, -0.0)#two, f32[2]#two)
  %1: f32[2], %2: i64[2] = TopK(%0, i64[](2)) {alpha=0.2, to=i8, mode="linear", axes=(1,), ends=None, sorted=True}
  %y~2: f32[*] = If(bool[](True), %1) {then_branch=graph then(%p: f32[2]) {
    %q: f32[2]@nc4hw4 = Neg(%p)
    return %q
  }, else_branch=graph else(%p: f32[2]) {
    return f32[3](nan, inf, -inf)
  }}  # onnx:/if > fold
  return %y, %y~2
}
"""


def same_type(a: Value, b: Value) -> bool:
    return a.type == b.type and a.name == b.name


def assert_same(a: Graph, b: Graph, table: dict[Value, Value] | None = None) -> None:
    """The graphs are equal: structure, names, types, attributes, origins, and every bit of the constants."""
    table = {} if table is None else table
    assert a.name == b.name
    assert len(a.params) == len(b.params)
    assert len(a) == len(b)

    def assert_values(x: Any, y: Any) -> None:
        if x is None or y is None:
            assert x is y
            return
        assert same_type(x, y), (x, y)
        if x in table:
            assert table[x] is y
            return
        assert x.is_const
        assert y.is_const
        assert y not in table.values(), "one constant has become two, or two have become one"
        assert x.array.tobytes() == y.array.tobytes()
        assert x.array.dtype == y.array.dtype
        table[x] = y

    for x, y in zip(a.params, b.params, strict=True):
        assert same_type(x, y)
        table[x] = y
    for m, n in zip(a, b, strict=True):
        assert (m.op, m.origin) == (n.op, n.origin)
        for x, y in zip(m.inputs, n.inputs, strict=True):
            assert_values(x, y)
        assert list(m.attrs) == list(n.attrs)
        for name, value in m.attrs.items():
            other = n.attrs[name]
            if isinstance(value, Graph):
                assert_same(value, other, table)
            else:
                assert type(value) is type(other)
                assert repr(value) == repr(other)
        for x, y in zip(m.outputs, n.outputs, strict=True):
            assert same_type(x, y)
            table[x] = y
    for x, y in zip(a.ret.inputs, b.ret.inputs, strict=True):
        assert_values(x, y)


def round_trip(graph: Graph) -> str:
    blobs: dict[str, Blob] = {}
    text = to_text(graph, blobs)
    again = parse(text, blobs)
    assert_same(graph, again)
    assert to_text(again) == text
    return text


def test_the_example_reads_and_prints_as_it_stands() -> None:
    weights = np.zeros((64, 3, 7, 7), np.float32)
    graph = parse(EXAMPLE, {"c0": weights})
    assert to_text(graph) == EXAMPLE
    conv, top, topk, branch = graph
    assert conv.origin == "onnx:/conv1"
    assert conv.inputs[1].array is weights
    assert conv.inputs[2] is None
    assert conv.attrs == {"strides": (2, 2), "pads": (3, 3, 3, 3)}
    assert graph.params[1].name == "odd name"
    assert top.inputs[0] is top.inputs[1]
    assert top.inputs[0].name == "two"
    assert np.signbit(top.inputs[0].array[1])
    assert top.output.name == ""
    assert topk.attrs["alpha"] == float(np.float32(0.2))
    assert topk.attrs["to"] is DType.I8
    assert branch.outputs[0].name == "y"
    assert branch.attrs["then_branch"].outputs[0].type.layout == "nc4hw4"
    assert np.isnan(branch.attrs["else_branch"].outputs[0].array[0])


def test_layout_line_ends_and_comments_mean_nothing() -> None:
    graph = parse("# a note\ngraph g(%x:f32[2]){%y:f32[2]=Neg(%x){}\n# another\nreturn %y}")
    assert to_text(graph) == "graph g(%x: f32[2]) {\n  %y: f32[2] = Neg(%x)\n  return %y\n}\n"


def test_a_graph_without_nodes_and_outputs() -> None:
    assert round_trip(Graph("empty")) == "graph empty() {\n  return\n}\n"


# ---- the property ------------------------------------------------------------------------------------------------

names = st.one_of(
    st.just(""),
    st.sampled_from(["x", "y", "c0", "0", "a~2", "/conv1/Conv_output_0", "w.1", "ret"]),
    st.text(max_size=5),
)
dims = st.one_of(st.integers(0, 9), st.sampled_from(["N", "?", "batch size", "3", "nan", "N-1", "*", ""]))
types = st.builds(
    TensorType,
    st.sampled_from(DType),
    st.one_of(st.none(), st.lists(dims, max_size=4).map(tuple)),
    st.sampled_from(["nchw", "nc4hw4"]),
)
floats32 = st.floats(width=32)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), floats32, st.floats(), st.text(max_size=6), st.binary(max_size=5),
    st.sampled_from(DType),
)  # fmt: skip
attributes = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4), inner, max_size=2),
    ),
    max_leaves=4,
)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Any bits at all: NaNs with payloads, subnormals, both zeros."""
    kind = draw(st.sampled_from(DType))
    dtype = kind.numpy
    shape = draw(st.one_of(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
    if dtype.kind == "b":
        return draw(hnp.arrays(bool, shape))
    bits = draw(hnp.arrays(f"u{dtype.itemsize}", shape))
    if kind.bits < 8:
        bits = bits & np.uint8(2**kind.bits - 1)  # above them nothing is stored
    return np.asarray(bits).view(dtype).reshape(shape)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2, shared: list[Value] | None = None) -> Graph:
    constants: list[Value] = [] if shared is None else shared
    graph = Graph(draw(st.sampled_from(["main", "a graph", "g.1"])))
    values: list[Value] = [graph.add_param(draw(types), draw(names)) for _ in range(draw(st.integers(0, 2)))]

    def operand() -> Value | None:
        kind = draw(st.integers(0, 4))
        if kind == 0:
            constants.append(Value.constant(draw(arrays()), draw(names)))
            return constants[-1]
        if kind == 1 and constants:
            return draw(st.sampled_from(constants))
        return draw(st.sampled_from(values)) if kind > 2 and values else None

    for _ in range(draw(st.integers(0, 4))):
        inputs = [operand() for _ in range(draw(st.integers(0, 3)))]
        attrs = draw(st.dictionaries(st.sampled_from(["axis", "mode", "is odd", "nan"]), attributes, max_size=2))
        if depth and draw(st.integers(0, 3)) == 0:
            attrs["body"] = draw(graphs(depth - 1, constants))
        outputs = draw(st.lists(types, min_size=1, max_size=2))
        origin = draw(st.one_of(st.just(""), st.just('"x" > y'), st.text(max_size=8)))
        node = Node(
            draw(st.sampled_from(["Add", "mnn.Raw"])), inputs, attrs, outputs, [draw(names) for _ in outputs], origin
        )
        graph.insert(node)
        values += node.outputs
    graph.outputs = [v for v in (operand() for _ in range(draw(st.integers(0, 3)))) if v is not None]
    return graph


@settings(max_examples=some_of(300), deadline=None)
@given(graphs())
def test_every_graph_reads_back_as_it_was(graph: Graph) -> None:
    round_trip(graph)


@settings(max_examples=some_of(300), deadline=None)
@given(st.integers(0, len(EXAMPLE)), st.text(max_size=3), st.integers(0, 5))
def test_damaged_text_is_refused_or_read_but_never_anything_else(at: int, inserted: str, removed: int) -> None:
    text = EXAMPLE[:at] + inserted + EXAMPLE[at + removed :]
    with suppress(FormatError):
        parse(text, {"c0": np.zeros((64, 3, 7, 7), np.float32)})


# ---- bad text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%y: f32[2] = Neg(%z)", "%z is not defined yet"),
        ("%x: f32[2] = Neg(%x)", "%x is defined twice"),
        ("%y: f31[2] = Neg(%x)", "expected an element type"),
        ("%y: f32[2] Neg(%x)", "expected '='"),
        ("%y: f32[2] = Neg(%x", "expected ')'"),
        ("%y: f32[2] = Neg(f32[2](1.0))", "1 numbers for f32[2]"),
        ("%y: f32[2] = Neg(i8[1](300))", "not a number of type i8"),
        ("%y: f32[2] = Neg(bool[1](1))", "not a number of type bool"),
        ("%y: f32[2] = Neg(f32[N](1.0))", "cannot have its numbers in the text"),
        ("%y: f32[2] = Neg(f32[2])", "a constant needs its numbers"),
        ("%y: f32[2] = Neg(f32[2]#w)", "the numbers of the constant #w are not here"),
        ("%y: f32[2] = Add(f32[1](1.0)#k, f32[2]#k)", "the constant #k is f32[1] already"),
        ("%y: f32[2] = Neg(f32[3]#given)", "the constant #given is f32[2] in `blobs`"),
        ("%y: f32[2] = Neg(%x) {a=1, a=2}", "'a' is there twice"),
        ("%y: f32[2] = Neg(%x) {a=f33}", "expected an element type"),
        ("%y: f32[2] = Neg(%x) {a=}", "expected the value of an attribute"),
        ("%y: f32[-1] = Neg(%x)", "a dimension is a number"),
        ("%y: f32[99999999999999999999] = Neg(%x)", "a dimension is a number"),
        ("%y: f32[2] = Neg(%x) {a=1.2.3}", "not a number"),
        ("%y: f32[2] = Neg(^x)", "what is '^x)'"),
        ("return _", "an output cannot be missing"),
        ("return %x } extra", "a text ends with its graph"),
    ],
)  # fmt: skip
def test_an_error_names_line_and_reason(line: str, why: str) -> None:
    text = f"graph main(%x: f32[2]) {{\n\n  {line}\n  return %x\n}}\n"
    with pytest.raises(FormatError) as e:
        parse(text, {"given": np.zeros(2, np.float32)})
    assert why in e.value.why
    assert e.value.where.startswith(("line 3", "line 4"))


def test_text_nested_too_deep_is_refused() -> None:
    with pytest.raises(FormatError, match="graph"):
        parse("graph g() { %y: f32[] = Neg() {a=" + "(" * 100_000)


def test_a_value_of_another_graph_cannot_be_printed() -> None:
    other = Graph("other").add_param(TensorType(DType.F32, ()), "x")
    graph = Graph()
    graph.outputs = [other]
    with pytest.raises(InternalError, match="does not belong to"):
        to_text(graph)


def test_big_constants_stay_out_of_the_text_and_are_not_copied() -> None:
    data = ArrayBlob(np.arange(17, dtype=np.float32))
    graph = Graph()
    graph.outputs = [Value.constant(data, "w"), Value.constant(np.arange(16, dtype=np.float32))]
    blobs: dict[str, Blob] = {}
    text = to_text(graph, blobs)
    assert "f32[17]#w, f32[16](0.0, 1.0" in text
    assert blobs == {"w": data}
    assert parse(text, blobs).outputs[0].data is data
