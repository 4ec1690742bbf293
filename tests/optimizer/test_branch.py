"""Branches that go away or lose what they have in common, against the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from rewriting import ALL, apply, read, run

from minnow.optimizer import optimize
from minnow.schema.ir import Graph, Model


def _assert_same(before: Graph, after: Graph) -> None:
    rng = np.random.default_rng(0)
    for condition in (True, False):
        arrays = []
        for p in before.params:
            shape = [d if isinstance(d, int) else 3 for d in p.type.shape or ()]
            array = rng.standard_normal(shape) if p.type.dtype.is_float else np.full(shape, condition)
            arrays.append(array.astype(p.type.dtype.numpy))
        for want, got in zip(run(before, arrays), run(after, arrays), strict=True):
            assert want.shape == got.shape
            np.testing.assert_array_equal(got, want)


_SHARED = """graph g(%c: bool[], %x: f32[N,2], %z: f32[2]) {
  %u: f32[N,2], %v: f32[N,2], %w: f32[2] = If(%c, %x, %z) {then_branch=graph t(%a: f32[N,2], %b: f32[2]) {
    %d: f32[N,1], %e: f32[N,1] = Split(%a) {axis=1, sizes=(1, 1)}
    %f: f32[N,2] = Concat(%e, %d) {axis=1}
    %h: f32[N,2] = Mul(%f, f32[](2.0))
    %i: f32[N,2] = Mul(%f, f32[](2.0))
    %k: f32[N,2] = Add(%h, %i)
    return %k, %f, %b
  }, else_branch=graph e(%a: f32[N,2], %b: f32[2]) {
    %m: f32[N,2] = Exp(%a)
    %d: f32[N,1], %e: f32[N,1] = Split(%a) {axis=1, sizes=(1, 1)}
    %f: f32[N,2] = Concat(%e, %d) {axis=1}
    %h: f32[N,2] = Mul(f32[](2.0), %f)
    %k: f32[N,2] = Sub(%h, %m)
    return %k, %f, %b
  }}
  return %u, %v, %w
}"""


def test_what_both_branches_compute_is_computed_once() -> None:
    before, after = read(_SHARED), read(_SHARED)
    assert apply(ALL["hoist_common"], after) > 0
    assert [n.op for n in after] == ["Split", "Concat", "Mul", "If"]
    choice = list(after)[-1]
    assert [[n.op for n in g] for g in choice.subgraphs.values()] == [["Add"], ["Exp", "Sub"]]
    assert len(choice.outputs) == 1
    assert after.outputs[2] is after.params[2]
    _assert_same(before, after)


def test_equal_branches_are_no_choice() -> None:
    branch = "(%a: f32[2]) { %e: f32[2] = Exp(%a) %h: f32[2] = Neg(%e) return %h }"
    text = (
        f"graph g(%c: bool[], %x: f32[2]) {{ %y: f32[2] = If(%c, %x) {{then_branch=graph t{branch}, "
        f"else_branch=graph e{branch}}} return %y }}"
    )
    before, after = read(text), read(text)
    assert apply(ALL["hoist_common"], after) > 0
    assert [n.op for n in after] == ["Exp", "Neg"]
    assert after.outputs[0].name == "y"
    _assert_same(before, after)


@pytest.mark.parametrize(("cond", "shape"), [("[]", "[]"), ("[1]", "[]"), ("[1]", "[2,3]"), ("[1,1]", "[5]")])
@pytest.mark.parametrize("dtype", ["f32", "bool"])
def test_small_branches_are_computed_both(cond: str, shape: str, dtype: str) -> None:
    t = dtype + shape
    op = "Mul" if dtype == "f32" else "And"
    text = f"""graph g(%c: bool{cond}, %x: {t}, %z: {t}) {{
      %y: {t}, %k: {t} = If(%c, %x, %z) {{then_branch=graph t(%a: {t}, %b: {t}) {{
        %d: {t} = {op}(%a, %b)
        return %d, %b
      }}, else_branch=graph e(%a: {t}, %b: {t}) {{
        return %a, %d
      }}}}
      return %y, %k
    }}""".replace("return %a, %d\n      }", f"%d: {t} = {op}(%b, %b) return %a, %d\n      }}")
    before, after = read(text), read(text)
    assert apply(ALL["choose_results"], after) == 1
    assert {n.op for n in after} <= {op, "Where", "Reshape"}
    _assert_same(before, after)


@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_the_pipeline_leaves_no_choice_of_little(target: str) -> None:
    text = """graph g(%c: bool[], %x: f32[3]) {
      %y: f32[3] = If(%c, %x) {then_branch=graph t(%a: f32[3]) {
        %d: f32[3] = Exp(%a)
        %e: f32[3] = Neg(%d)
        return %e
      }, else_branch=graph e(%a: f32[3]) {
        %d: f32[3] = Exp(%a)
        return %d
      }}
      return %y
    }"""
    before, after = read(text), read(text)
    optimize(Model(after), target=target)  # type: ignore[arg-type]
    assert "If" not in {n.op for n in after}
    _assert_same(before, after)
