"""Types of the file format: what becomes narrow, what stays wide, and that the outside does not notice."""

from __future__ import annotations

import numpy as np
import pytest
from rewriting import apply, assert_same_numbers, read, run

from minnow.optimizer import optimize
from minnow.optimizer.passes.legalize.narrow import WIDE, lower_bools, narrow_types
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Builder
from minnow.schema.registry.verify import verify

_CONV = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"


def _dtypes(graph: Graph) -> set[DType]:
    return {v.type.dtype for g in graph.walk() for v in (*g.values(), *g.constants())}


def test_a_loop_keeps_its_types_in_step() -> None:
    text = """
    graph g(%n: i64[], %c: bool[], %k: i64[3], %x: f16[3]) {
      %d: i64[1] = Shape(%x)
      %a: i64[3], %m: i64[1], %b: f16[3], %s: i64[?] = Loop(%n, %c, %k, %d, %x, %k) {num_carried=3, body=graph b(
        %i: i64[], %go: bool[], %k: i64[3], %d: i64[1], %x: f16[3], %t: i64[3]) {
          %m: i64[3] = Add(%k, %i)
          %o: i64[3] = Add(%m, %t)
          %e: i64[1] = Min(%d, i64[1](2))
          %y: f16[3] = Mul(%x, f16[](2.0))
          %h: bool[] = Less(%i, i64[](5))
          return %h, %o, %e, %y, %i
        }}
      return %a, %m, %b, %s
    }"""
    before, after = read(text), read(text)
    apply(narrow_types, after)
    # The counter fits, so does what only becomes less; a sum of numbers that nobody knows need not.
    assert [v.type.dtype for v in after.outputs] == [DType.I64, DType.I32, DType.F32, DType.I32]
    body = next(n for n in after if n.op == "Loop").attrs["body"]
    assert [str(p.type.dtype) for p in body.params] == ["i32", "bool", "i64", "i32", "f32", "i64"]
    assert [p.type.dtype for p in after.params] == [DType.I32, DType.I32, DType.I64, DType.F32]
    numbers = [np.array(4), np.array(True), np.arange(3) + 2**40, np.ones(3, np.float16)]
    wants = run(before, [np.asarray(a, p.type.dtype.numpy) for a, p in zip(numbers, before.params, strict=True)])
    for want, got in zip(wants, run(after, numbers), strict=True):
        np.testing.assert_array_equal(got, want)


MOST = 9223372036854775807


@pytest.mark.parametrize(
    ("what", "text", "wide"),
    [
        ("a number beyond 32 bits", "graph g(%x: i64[2]) { %y: i64[2] = Add(%x, i64[](4294967296)) return %y }", True),
        ("unsigned input", "graph g(%x: u32[2]) { %y: u32[2] = Add(%x, u32[](1)) return %y }", True),
        ("a sum that may be anything", "graph g(%x: i64[2]) { %y: i64[2] = Add(%x, i64[](1)) return %y }", True),
        ("a product", "graph g(%x: i64[2]) { %y: i64[2] = Mul(%x, %x) return %y }", True),
        ("a sum of bytes", "graph g(%b: u8[2]) { %x: i64[2] = Cast(%b) {to=i64} "
                           "%y: i64[2] = Mul(%x, %x) return %y }", False),
        ("a product of four dimensions", "graph g(%b: f32[N,2]) { %x: i64[2] = Shape(%b) %z: i64[2] = Mul(%x, %x) "
                                      "%y: i64[2] = Mul(%z, %z) return %y }", True),
        ("a cast that wraps", "graph g(%b: i32[2]) { %x: i16[2] = Cast(%b) {to=i16} %z: i16[2] = Add(%x, %x) "
                              "%y: f32[2] = Cast(%z) {to=f32} return %y }", True),
        ("small numbers of 16 bits", "graph g(%b: i8[2]) { %x: i16[2] = Cast(%b) {to=i16} %z: i16[2] = Mul(%x, %x) "
                                     "%y: f32[2] = Cast(%z) {to=f32} return %y }", False),
        ("bounds that mean the end", "graph g(%b: u8[2]) { %x: i64[2] = Cast(%b) {to=i64} %y: i64[1] = Slice(%x, "
                                     f"i64[1](1), i64[1]({MOST})) return %y }}", False),
        ("indices", "graph g(%x: i64[2], %t: f32[5,3]) { %y: f32[2,3] = Gather(%t, %x) {axis=0} return %y }", False),
        ("indices that are computed", "graph g(%x: i64[2], %t: f32[5,3]) { %z: i64[2] = Add(%x, i64[](1)) "
                                      "%y: f32[2,3] = Gather(%t, %z) {axis=0} return %y }", True),
        ("a mask", "graph g(%x: i64[2]) { %y: f32[2] = Cast(%x) {to=f32} return %y }", True),
        ("only its shape", "graph g(%x: i64[2]) { %z: i64[1] = Shape(%x) %y: f32[1] = Cast(%z) {to=f32} return %y }",
         False),
        ("a choice", "graph g(%x: i64[2]) { %y: bool[2] = Equal(%x, i64[](16000)) return %y }", False),
        ("a dimension", "graph g(%x: i64[1], %b: f32[2,N]) { %s: i64[2] = Shape(%b) %z: i64[1] = ReduceProd(%s) "
                      "%m: i64[1] = Mul(%z, %x) %y: f32[?] = Fill(%m, f32[](1.5)) return %y }", False),
        ("floats that are dimensions", "graph g(%x: f32[1]) { %i: i64[1] = Cast(%x) {to=i64} "
                                    "%y: f32[?] = Fill(%i, f32[](1.5)) return %y }", False),
        ("floats that are numbers", "graph g(%x: f32[1]) { %y: i64[1] = Cast(%x) {to=i64} return %y }", True),
    ],
)  # fmt: skip
def test_integers_stay_wide_where_they_must(what: str, text: str, wide: bool) -> None:
    before, after = read(text), read(text)
    apply(narrow_types, after)
    made = [v for g in after.walk() for v in g.values() if v.producer is None or v.producer.op != "Shape"]
    assert any(v.type.dtype in WIDE for v in made) is wide, what
    assert_same_numbers(before, after)


def test_what_is_asked_for_is_narrowed_and_named() -> None:
    text = "graph g(%x: i64[2]) { %z: i64[2] = Add(%x, i64[](1)) %y: i64[2] = Mul(%z, i64[](4294967296)) return %y }"
    notices: list[str] = []
    graph = read(text)
    narrow_types.apply(graph, int64="narrow", notices=notices)
    verify(graph)
    assert [p.type.dtype for p in graph.params] == [DType.I32]
    assert next(n for n in graph if n.op == "Add").output.type.dtype is DType.I32
    assert next(n for n in graph if n.op == "Mul").output.type.dtype is DType.I64
    (notice,) = notices
    assert "x, z" in notice
    assert_same_numbers(read(text), graph)
    graph = read("graph g(%x: f32[2,3]) { %y: i64[2] = Shape(%x) %z: i64[2] = Add(%y, i64[](1)) return %z }")
    narrow_types.apply(graph, int64="keep")
    assert {v.type.dtype for v in graph.values()} == {DType.F32, DType.I64}


def test_casts_to_f16_round() -> None:
    text = """graph g(%x: f32[3], %n: i64[3]) {
      %h: f16[3] = Cast(%x) {to=f16}
      %y: f32[3] = Cast(%h) {to=f32}
      %p: f16[3] = Mul(%h, %h)
      %z: f32[3] = Cast(%p) {to=f32}
      %b: bool[3] = Less(%n, i64[](2))
      %m: f16[3] = Cast(%b) {to=f16}
      return %y, %z, %m
    }"""
    before, after = read(text), read(text)
    apply(narrow_types, after)
    x = np.array([1 + 2**-12, 65519, 300], np.float32)
    wants = run(before, [x, np.arange(3)])
    assert np.isinf(wants[1]).any()
    for want, got in zip(wants, run(after, [x, np.arange(3)]), strict=True):
        np.testing.assert_array_equal(got, want)
    assert sum(n.op == "RoundTo" for n in after) == 2, "what is exact needs no rounding"


def test_bf16_and_f64_keep_their_arithmetic() -> None:
    for dtype in ("bf16", "f64"):
        graph = read(f"graph g(%x: {dtype}[3]) {{ %y: {dtype}[3] = Mul(%x, {dtype}[](3.0)) return %y }}")
        assert apply(narrow_types, graph) == 0


def test_wide_graphs_can_be_written() -> None:
    text = """graph g(%x: i64[2,3]) {
      %s: i64[2] = Shape(%x) %a: i64[2,3] = Add(%x, i64[](4294967296)) %y: i64[2,3] = Expand(%a, %s) return %y, %s
    }"""
    graph = read(text)
    model = Model(graph, [("x", graph.params[0].type)], [(n, graph.outputs[0].type) for n in ("y", "s")])
    optimize(model)
    again = decode(encode(model))
    verify(again)
    assert_same_numbers(read(text), model.graph)
    assert model.notices


def test_halves_of_convolutions_stay_halves_and_others_do_not() -> None:
    text = f"""graph g(%x: f16[1,1,2,2]) {{
      %a: f16[1,1,2,2] = Conv(%x, f16[1,1,1,1](2.0), f16[1](1.0)) {_CONV}
      %y: f16[1,1,2,2] = BatchNorm(%a, f16[1](2.0), f16[1](1.0), f16[1](0.5), f16[1](4.0))
      return %y
    }}"""
    before, after = read(text), read(text)
    apply(narrow_types, after)
    conv, norm = list(after)
    assert [v.type.dtype for v in conv.inputs if v is not None] == [DType.F32, DType.F16, DType.F16]
    assert {v.type.dtype for v in norm.inputs if v is not None} == {DType.F32}
    assert_same_numbers(before, after, tolerance=1e-2)


def test_truth_at_the_boundary() -> None:
    text = "graph g(%x: bool[3], %z: bool[3]) { %y: bool[3] = And(%x, %z) return %y, %x }"
    before, after = read(text), read(text)
    apply(narrow_types, after)
    assert [p.type.dtype for p in after.params] == [DType.I32, DType.I32]
    assert [v.type.dtype for v in after.outputs] == [DType.BOOL, DType.BOOL]
    assert_same_numbers(before, after)


def test_the_model_shows_the_types_of_its_source() -> None:
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F64, ("N", 2)), "x")
    c = graph.add_param(TensorType(DType.BOOL, ()), "c")
    b = Builder(graph)
    graph.outputs = [b.Where(c, x, b.Neg(x)), b.Shape(x)]
    model = Model(graph, [("x", x.type), ("c", c.type)], [("y", graph.outputs[0].type), ("s", graph.outputs[1].type)])
    declared = [*model.inputs], [*model.outputs]
    optimize(model)
    assert ([*model.inputs], [*model.outputs]) == declared
    assert [v.name for v in model.graph.outputs][1] in ("", "s")
    again = decode(encode(model))
    assert (again.inputs, again.outputs) == declared
    assert [p.type.dtype for p in again.graph.params] == [DType.F64, DType.I32]


def test_constants_of_truth_do_not_reach_the_file() -> None:
    text = """graph g(%n: i32[], %x: f32[2]) {
      %w: f32[2] = Where(bool[2](True, False), %x, f32[](0.0))
      %y: f32[2], %s: f32[?,2] = Loop(%n, bool[](True), %w) {num_carried=1, body=graph b(
        %i: i32[], %go: bool[], %v: f32[2]) { %a: f32[2] = Exp(%v) return bool[](True), %a, %a }}
      return %y, %s
    }"""
    before, after = read(text), read(text)
    apply(lower_bools, after)
    assert not any(c.type.dtype is DType.BOOL for g in after.walk() for c in g.constants())
    loop = next(n for n in after if n.op == "Loop")
    assert loop.inputs[1] is None, "a condition that always holds is none"
    arrays = [np.array(3, np.int32), np.array([0.1, -0.2], np.float32)]
    for want, got in zip(run(before, arrays), run(after, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_constants_that_several_graphs_hold_are_changed_in_each() -> None:
    text = """graph g(%c: bool[], %b: u8[2]) {
      %x: i64[2] = Cast(%b) {to=i64}
      %y: i64[2] = If(%c, %x) {
        then_branch=graph t(%x: i64[2]) { %a: i64[2] = Add(%x, i64[2](1, 2)) return %a },
        else_branch=graph e(%x: i64[2]) { %a: i64[2] = Sub(%x, i64[2](1, 2)) return %a }}
      %z: i64[2] = Mul(%y, i64[2](1, 2))
      return %z
    }"""
    before, after = read(text), read(text)
    apply(narrow_types, after)
    assert _dtypes(after) == {DType.I32, DType.U8, DType.BOOL}
    assert_same_numbers(before, after)


def test_bounds_beyond_an_unsigned_type_do_not_wrap() -> None:
    for dtype in ("u8", "u16", "u32"):
        text = f"graph g(%x: {dtype}[3]) {{ %y: {dtype}[3] = Clip(%x) {{min=-7.0, max=-2.0}} return %y }}"
        graph = read(text)
        model = Model(graph, [("x", graph.params[0].type)], [("y", graph.outputs[0].type)])
        optimize(model, 0)
        assert_same_numbers(read(text), model.graph)
