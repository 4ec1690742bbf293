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


_OPS = ("Neg", "Exp", "Abs", "Tanh", "Add", "Mul", "Sub", "Max")


def _random_branches(seed: int) -> str:
    """Two branches of which the second is the first one with some ops and operands changed, outputs used at random."""
    rng = np.random.default_rng(seed)
    values = ["%a", "%b", "%k"]
    lines = []
    for i in range(rng.integers(0, 8)):
        op = str(rng.choice(_OPS))
        operands = ", ".join(rng.choice(values, 1 if op in _OPS[:4] else 2))
        lines.append(f"%v{i}: f32[3] = {op}({operands})")
        values.append(f"%v{i}")
    lines.append(f"return {', '.join(rng.choice(values, 3))}")
    other = list(lines)
    for _ in range(rng.integers(0, 3)):
        i = rng.integers(0, len(other))
        old, new = rng.choice([("Exp", "Tanh"), ("Add", "Sub"), ("%a", "%b"), ("(%b", "(%a"), ("Neg", "Abs")])
        left, sign, right = other[i].partition("=" if "=" in other[i] else "return")
        other[i] = left + sign + right.replace(old, new, 1)
    params = "(%a: f32[3], %b: f32[3], %k: f32[3])"
    one, two = (f"graph {n}{params} {{ {' '.join(body)} }}" for n, body in (("t", lines), ("e", other)))
    given = rng.choice(["%x, %y, %z", "%x, %x, %z"])
    results = rng.choice(["%o, %w", "%w", "%o, %p, %q", "%q, %q"])
    return (
        "graph g(%c: bool[], %x: f32[3], %y: f32[3], %z: f32[3]) { %o: f32[3], %p: f32[3], %q: f32[3] = "
        f"If(%c, {given}) {{then_branch={one}, else_branch={two}}} %w: f32[3] = Neg(%p) return {results} }}"
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_branches_that_are_nearly_equal(seed: int) -> None:
    for k in range(5):
        text = _random_branches(60 * k + seed)
        for steps in (("hoist_common",), ("hoist_common", "choose_results")):
            before, after = read(text), read(text)
            for step in steps:
                apply(ALL[step], after)
            with np.errstate(all="ignore"):
                _assert_same(before, after)


def test_what_one_branch_computes_twice() -> None:
    text = """graph g(%c: bool[], %x: f32[3]) {
      %y: f32[3] = If(%c, %x) {then_branch=graph t(%a: f32[3]) {
        %d: f32[3] = Exp(%a)
        %e: f32[3] = Exp(%a)
        %f: f32[3] = Neg(%e)
        %h: f32[3] = Mul(%f, %d)
        return %h
      }, else_branch=graph e(%a: f32[3]) {
        %d: f32[3] = Exp(%a)
        %f: f32[3] = Neg(%d)
        %h: f32[3] = Sub(%f, %d)
        return %h
      }}
      return %y
    }"""
    before, after = read(text), read(text)
    apply(ALL["hoist_common"], after)
    assert [n.op for n in after] == ["Exp", "Neg", "If"]
    _assert_same(before, after)
