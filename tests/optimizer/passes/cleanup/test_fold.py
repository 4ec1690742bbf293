"""Folding: conditions, dimensions, captured constants, and weights that nobody computes before the file is written."""

from __future__ import annotations

import numpy as np
import pytest
from rewriting import apply, assert_same_numbers, inputs_for, normal_form, read, run

from minnow.optimizer.passes.cleanup.fold import fold_constants
from minnow.optimizer.rewrite import passes
from minnow.schema.ir import Graph, LazyBlob, Value
from minnow.schema.ir.text import parse
from minnow.schema.registry.symbolic import Polynomial, contents
from minnow.schema.registry.verify import verify

N = Polynomial.of(1, (None, "N"))
ONE = Polynomial.of(1)
S = Polynomial.of(1, (None, "S"))


def _value(lines: str, params: str = "%x: f32[N,3,S]") -> Value:
    """The value %y of some lines."""
    graph = read(f"graph g({params}) {{ {lines} return %y }}")
    return graph.outputs[0]


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ("%y: i64[3] = Shape(%x)", [N, Polynomial.of(3), S]),
        ("%y: i64[2] = Shape(%x) {start=1}", [Polynomial.of(3), S]),
        ("%y: i64[1] = Shape(%x) {start=-2, end=-1}", [Polynomial.of(3)]),
        ("%y: i64[] = Size(%x)", [Polynomial.of(3) * N * S]),
        ("%a: i64[3] = Shape(%x) %y: i64[] = Gather(%a, i64[](-1))", [S]),
        ("%a: i64[3] = Shape(%x) %y: i64[2] = Slice(%a, i64[1](-1), i64[1](-9), i64[1](0), i64[1](-2))", [S, N]),
        ("%a: i64[3] = Shape(%x) %b: i64[1] = Slice(%a, i64[1](0), i64[1](1)) "
         "%y: i64[3] = Concat(%b, i64[2](-1, 6)) {axis=0}", [N, Polynomial.of(-1), Polynomial.of(6)]),
        ("%a: i64[3] = Shape(%x) %b: i64[3] = Mul(%a, i64[](4)) %y: i64[3] = Div(%b, i64[](2))",
         [Polynomial.of(2) * N, Polynomial.of(6), Polynomial.of(2) * S]),
        ("%a: i64[3] = Shape(%x) %y: i64[3] = Sub(%a, %a)", [Polynomial.of(0)] * 3),
        ("%a: i64[3] = Shape(%x) %y: i64[3] = Add(%a, i64[](0))", [N, Polynomial.of(3), S]),
        ("%a: i64[3] = Shape(%x) %y: i64[3] = Div(%a, i64[](2))", [None, Polynomial.of(1), None]),
        ("%a: i64[3] = Shape(%x) %y: i64[3] = Sub(%a, i64[](1))", [N - ONE, Polynomial.of(2), S - ONE]),
        ("%a: i64[3] = Shape(%x) %y: bool[3] = Equal(%a, i64[](-1))", [Polynomial.of(0)] * 3),
        ("%a: i64[3] = Shape(%x) %y: bool[3] = Equal(%a, i64[](3))", [None, Polynomial.of(1), None]),
        ("%a: i64[3] = Shape(%x) %c: bool[3] = Equal(%a, i64[](-1)) %y: i64[3] = Where(%c, i64[](1), %a)",
         [N, Polynomial.of(3), S]),
        ("%a: i64[3] = Shape(%x) %b: i32[3] = Cast(%a) {to=i32} %y: i32[] = ReduceProd(%b) {keepdims=False}",
         [Polynomial.of(3) * N * S]),
        ("%a: i64[3] = Shape(%x) %y: i64[3] = Max(%a, i64[](1))", [None, Polynomial.of(3), None]),
        ("%y: i64[2] = Div(i64[2](7, -7), i64[](2))", [Polynomial.of(3), Polynomial.of(-3)]),
    ],
)  # fmt: skip
def test_contents_are_seen_through(lines: str, known: list[Polynomial | None]) -> None:
    assert contents(_value(lines)) == known


def test_unknown_extents_are_told_apart() -> None:
    value = _value("%a: i64[1] = Shape(%x) %b: i64[1] = Shape(%z) %y: i64[2] = Concat(%a, %b) {axis=0}",
                   params="%x: f32[?], %z: f32[?]")  # fmt: skip
    first, second = contents(value) or []
    assert first is not None
    assert first != second


@pytest.mark.parametrize(
    "lines",
    [
        "%y: i64[2] = Neg(%i)",
        "%y: f32[2] = Neg(%x)",
        "%a: i64[2] = Mul(%i, %i) %y: i64[2] = Add(%a, i64[](1))",
    ],
)
def test_nothing_is_known_of_other_values(lines: str) -> None:
    assert contents(_value(lines, params="%x: f32[2], %i: i64[2]")) is None


def test_long_chains_of_sums_end() -> None:
    lines = ["%a0: i64[1] = Shape(%x)"]
    lines += [f"%a{i}: i64[1] = Add(%a{i - 1}, %a{i - 1})" for i in range(1, 40)]
    value = _value(" ".join(lines) + " %y: i64[1] = Add(%a39, i64[](0))", params="%x: f32[N]")
    assert contents(value) == [Polynomial.of(2**39) * N]


@pytest.mark.parametrize(
    ("lines", "shape"),
    [
        ("%y: f32[?,?] = Reshape(%x, %s)", ("N", 3)),
        ("%b: i64[2] = Mul(%s, i64[2](0, 1)) %y: f32[?,?] = Reshape(%x, %b)", ("N", 3)),
        ("%y: f32[?,?] = Fill(%s, f32[](0.0))", ("N", 3)),
        ("%y: f32[?,?] = Expand(f32[1,1](1.0), %s)", ("N", 3)),
        ("%y: f32[?,?] = Expand(%x, %s)", ("N", 3)),
        ("%y: f32[M,?] = Expand(%m, %s)", ("?", 3)),  # M or N may be 1
        ("%b: i64[2] = Mul(%s, i64[2](0, 1)) %c: i64[2] = Add(%b, i64[2](1, 0)) %y: f32[M,?] = Expand(%m, %c)",
         ("M", 3)),
        ("%b: i64[2] = Mul(%s, i64[2](0, 1)) %c: i64[2] = Add(%b, i64[2](5, 0)) %y: f32[?,?] = Expand(%m, %c)",
         (5, 3)),
    ],
)  # fmt: skip
def test_types_follow_computed_shapes(lines: str, shape: tuple[int | str, ...]) -> None:
    text = f"graph g(%x: f32[N,3], %m: f32[M,1]) {{ %s: i64[2] = Shape(%x) {lines} return %y }}"
    graph = parse(text.replace("f32[M,?]", "f32[?,?]"))
    fold_constants.apply(graph)
    assert graph.outputs[0].type.shape == shape


BRANCHES = """
graph g(%x: f32[2,3], %c: bool[]) {
  %s: i64[2] = Shape(%x)
  %n: i64[] = Gather(%s, i64[](1))
  %d: bool[] = Equal(%n, i64[](NUMBER))
  %y: f32[*], %z: f32[*] = If(%d, %x, %c) {
    then_branch=graph t(%x: f32[*], %c: bool[]) {
      %a: f32[*] = If(%c, %x) {
        then_branch=graph tt(%x: f32[*]) { %b: f32[*] = Exp(%x) return %b },
        else_branch=graph te(%x: f32[*]) { return %x }
      }
      return %a, %x
    },
    else_branch=graph e(%x: f32[*], %c: bool[]) { %b: f32[*] = Neg(%x) return %b, f32[](1.0) }
  }
  return %y, %z
}"""


@pytest.mark.parametrize(("number", "ops"), [(3, ["If", "Exp"]), (4, ["Neg"])])
def test_the_branch_that_is_taken_moves_in(number: int, ops: list[str]) -> None:
    text = BRANCHES.replace("NUMBER", str(number))
    before, after = read(text), read(text)
    assert apply(fold_constants, after) > 0
    assert [n.op for g in after.walk() for n in g] == ops
    assert_same_numbers(before, after)
    assert after.outputs[0].name == "y"
    # What was not known behind the If is known now.
    assert after.outputs[1].type.shape == ((2, 3) if number == 3 else ())


def test_bodies_get_the_constants_they_capture() -> None:
    text = """
    graph g(%n: i64[], %x: f32[2]) {
      %k: f32[2] = Exp(f32[2](0.0, 1.0))
      %y: f32[2] = Loop(%n, _, %x, %k, %n) {num_carried=1, body=graph b(
        %i: i64[], %c: bool[], %v: f32[2], %k: f32[2], %idle: i64[]) {
          %s: f32[2] = Add(%v, %k)
          return %c, %s
        }}
      return %y
    }"""
    before, after = read(text), read(text)
    apply(fold_constants, after)
    (loop,) = list(after)
    body: Graph = loop.attrs["body"]
    assert len(loop.inputs) == 3
    assert [len(g.params) for g in after.walk()] == [2, 3]
    assert len(body.constants()) == 1
    assert_same_numbers(before, after)


def test_a_branch_that_cannot_be_computed_is_no_error_until_it_is_taken() -> None:
    # Gather beyond the end, of constants, in a branch that the condition does not choose at run time.
    text = """
    graph g(%c: bool[]) {
      %y: f32[] = If(%c) {
        then_branch=graph t() { %a: f32[] = Gather(f32[2](1.0, 2.0), i64[](5)) return %a },
        else_branch=graph e() { return f32[](7.0) }
      }
      return %y
    }"""
    graph = parse(text)
    fold_constants.apply(graph)
    assert [n.op for g in graph.walk() for n in g] == ["If", "Gather"]
    assert run(graph, [np.array(False)])[0] == 7


def test_big_weights_are_moved_when_they_are_written() -> None:
    from minnow.schema.ir import DType, TensorType
    from minnow.schema.ops import Builder

    calls = []

    def numbers() -> np.ndarray:
        calls.append(1)
        return np.ones((200, 64), np.float16)

    graph = Graph("g")
    x = graph.add_param(TensorType(DType.F32, (2, 64)), "x")
    b = Builder(graph)
    w = Value.constant(LazyBlob(numbers, DType.F16, (200, 64)), "w")
    first, second = b.Split(b.Cast(w, to=DType.F32), axis=0, sizes=(90, 110), n_outputs=2)
    turned = b.Transpose(b.Concat(second, first, axis=0), perm=(1, 0))
    graph.outputs = [b.MatMul(x, turned)]
    before = graph.clone()
    assert apply(fold_constants, graph) == 4
    assert [n.op for n in graph] == ["MatMul"]
    assert calls == [], "a pass has read the weights"
    verify(graph)
    assert_same_numbers(before, graph)


def test_what_grows_stays_a_node() -> None:
    text = "graph g() { %y: f32[200,200] = Expand(f32[200,1]#w, i64[2](200, 200)) return %y }"
    graph = parse(text, {"w": np.ones((200, 1), np.float32)})
    assert apply(fold_constants, graph) == 0


def test_folding_twice_changes_nothing() -> None:
    graph = read(BRANCHES.replace("NUMBER", "3"))
    apply(fold_constants, graph)
    text = normal_form(graph)
    assert apply(fold_constants, graph) == 0
    assert normal_form(graph) == text


def test_equal_constants_and_nodes_are_kept_once() -> None:
    graph = read(
        "graph g(%x: f32[2]) { %a: f32[2] = Add(%x, f32[2](1.0, 2.0)) %b: f32[2] = Add(%x, f32[2](1.0, 2.0)) "
        "%c: f32[2] = Add(%x, f32[2](1.0, -0.0)) %d: f32[2] = Add(%x, f32[2](1.0, 0.0)) return %a, %b, %c, %d }"
    )
    assert apply(passes["eliminate_common"], graph) == 2
    # 0 and -0 differ.
    assert len(graph) == 3
    assert graph.outputs[0] is graph.outputs[1]
    (x,) = inputs_for([graph.params[0].type])
    assert len(run(graph, [x])) == 4
