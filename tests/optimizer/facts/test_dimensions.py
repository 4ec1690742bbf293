"""Formulas of dimensions and places, against numpy for random dimensions."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from rewriting import apply, read

from minnow.optimizer import optimize
from minnow.optimizer.facts.affine import affine
from minnow.optimizer.facts.derive import extents
from minnow.optimizer.passes.cleanup.fold import fold_constants, name_dimensions
from minnow.optimizer.phases import rules_of
from minnow.optimizer.rewrite import apply_rules, passes
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.symbolic import Polynomial, contents, of_dim

N, S = of_dim("N"), of_dim("S")
EXTENTS = [(0, 3), (1, 1), (1, 5), (2, 1), (2, 7), (5, 2), (3, 3), (4, 0)]


@pytest.mark.parametrize(
    ("dim", "extent"),
    [
        (7, Polynomial.of(7)),
        ("N", N),
        ("2*N", Polynomial.of(2) * N),
        ("N*S", N * S),
        ("S*N+2", N * S + Polynomial.of(2)),
        ("N - 1", N - Polynomial.of(1)),
        ("2*(a//2)", Polynomial.of(2) * of_dim("a//2")),
        # Names that inputs have, which nobody holds to what they say.
        ("past + 1", Polynomial.of(1, (None, "past + 1"))),
        ("batch-size", Polynomial.of(1, (None, "batch-size"))),
        ("a//2", Polynomial.of(1, (None, "a//2"))),
    ],
)
def test_dims_are_read_as_formulas(dim: int | str, extent: Polynomial) -> None:
    assert of_dim(dim) == extent
    assert of_dim(extent.dim) == extent


def test_formulas_have_one_spelling() -> None:
    assert of_dim("S*N").dim == of_dim("N*S").dim == "N*S"
    assert (N * S + N - N).dim == "N*S"
    assert (N - S).value({"N": 5, "S": 7}) == -2
    assert (N - N).dim == 0


@pytest.mark.parametrize(
    ("extent", "low", "filled", "known"),
    [
        (N, 0, "", True),
        (N, 1, "", False),
        (N, 1, "N", True),
        (N * S, 1, "N", False),
        (N * S, 1, "NS", True),
        (N * S - N, 0, "S", True),
        (N * S - N, 0, "N", False),
        (N - S, 0, "NS", False),
        (Polynomial.of(3) - N, 0, "N", False),
        (N * S - Polynomial.of(1), 0, "NS", True),
    ],
)
def test_signs(extent: Polynomial, low: int, filled: str, known: bool) -> None:
    assert extent.at_least(low, [(None, name) for name in filled]) is known


def test_quotients() -> None:
    assert (Polynomial.of(6) * N * S).divided(Polynomial.of(2) * N) == Polynomial.of(3) * S
    assert (Polynomial.of(6) * N + Polynomial.of(4)).divided(Polynomial.of(2)) == Polynomial.of(3) * N + Polynomial.of(
        2
    )
    assert (Polynomial.of(6) * N + Polynomial.of(3)).divided(Polynomial.of(2)) is None
    assert N.divided(S) is None
    assert (N + S).divided(N + S) == Polynomial.of(1)
    assert N.divided(Polynomial()) is None


# ---- random computations


def _vector(b: Builder, rng: random.Random, pool: list[Value]) -> Value:
    """One more vector of two numbers, computed of those in the pool."""
    x, y = rng.choice(pool), rng.choice(pool)
    number = np.array([rng.randint(-2, 3), rng.randint(0, 4)])
    other = y if rng.random() < 0.6 else b.const(number)
    op = rng.choice(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Where", "Concat", "Gather", "Slice", "Cast"])
    if op == "Where":
        test = rng.choice(["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "NotEqual"])
        return b.Where(getattr(b, test)(x, other), rng.choice(pool), y)
    if op == "Concat":
        return b.Slice(b.Concat(x, y, axis=0), np.array([1]), np.array([3]))
    if op == "Gather":
        return b.Gather(x, np.array([rng.randint(-2, 1), rng.randint(-2, 1)]))
    if op == "Slice":
        return b.Slice(x, np.array([-1]), np.array([-9]), np.array([0]), np.array([-1]))
    if op == "Cast":
        return b.Cast(b.Cast(x, to=DType.I32), to=DType.I64)
    return getattr(b, op)(x, other)


def _computed(seed: int) -> Graph:
    rng, graph = random.Random(seed), Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", "S")), "x")
    b = Builder(graph)
    pool = [b.Shape(x), b.Shape(b.Transpose(x, perm=(1, 0)))]
    for _ in range(12):
        pool.append(_vector(b, rng, pool))
    graph.outputs = pool
    return graph


@pytest.mark.parametrize("seed", range(60))
def test_contents_are_what_is_computed(seed: int) -> None:
    graph = _computed(seed)
    for n, s in EXTENTS:
        wanted = evaluate(graph, [np.zeros((n, s), np.float32)])
        for value, numbers in zip(graph.outputs, wanted, strict=True):
            known = contents(value)
            # Quotients by a dimension of 0 are nothing that shapes have.
            if known is None or 0 in (n, s):
                continue
            for e, number in zip(known, numbers.tolist(), strict=True):
                assert e is None or e.value({"N": n, "S": s}) == number


@pytest.mark.parametrize("seed", range(60))
def test_folding_keeps_what_is_computed(seed: int) -> None:
    before, after = _computed(seed), _computed(seed)
    apply(fold_constants, after)
    apply(name_dimensions, after)
    apply_rules(after, rules_of("shape"))
    for n, s in EXTENTS:
        x = np.zeros((n, s), np.float32)
        if 0 not in x.shape:
            for got, wanted in zip(evaluate(after, [x]), evaluate(before, [x]), strict=True):
                np.testing.assert_array_equal(got, wanted)


def _placed(b: Builder, rng: random.Random, pool: list[Value], shapes: list[Value]) -> Value:
    """One more tensor of places, computed of those in the pool."""
    x, y = rng.choice(pool), rng.choice(pool)
    rank = x.type.rank or 0
    number = np.array(rng.randint(-2, 3))
    op = rng.choice(["Add", "Sub", "Mul", "Unsqueeze", "Transpose", "Slice", "Expand", "Concat", "Where", "CumSum",
                     "Gather", "test", "Neg", "Flatten"])  # fmt: skip
    if op in ("Add", "Sub"):
        return getattr(b, op)(x, y if rank == y.type.rank and rng.random() < 0.5 else number)
    if op == "Mul":
        return b.Mul(x, number)
    if op == "Neg":
        return b.Neg(x)
    if op == "Unsqueeze" and rank < 4:
        return b.Unsqueeze(x, axes=(rng.randint(0, rank),))
    if op == "Transpose" and rank > 1:
        return b.Transpose(x, perm=tuple(rng.sample(range(rank), rank)))
    if op == "Slice" and rank:
        axis = np.array([rng.randrange(rank)])
        return b.Slice(x, np.array([rng.choice([0, 0, 1, -1])]), np.array([9999]), axis, np.array([rng.randint(1, 2)]))
    if op == "Expand" and rank:
        return b.Expand(x, b.Concat(*(rng.choice(shapes) for _ in range(rank)), axis=0))
    if op == "Concat" and rank:
        return b.Concat(x, x, axis=rng.randrange(rank))
    if op == "CumSum" and rank:
        return b.CumSum(x, np.array(rng.randrange(rank)))
    if op == "Flatten" and rank > 1:
        return b.Flatten(x, axis=rng.randint(0, rank))
    if op == "Gather" and rank:
        return b.Gather(x, y, axis=rng.randrange(rank))
    if op in ("test", "Where"):
        test = getattr(b, rng.choice(["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "NotEqual"]))
        truth = test(x, y if rng.random() < 0.5 and rank == y.type.rank else number)
        return b.Cast(truth, to=DType.I64) if op == "test" else b.Where(truth, x, number)
    return b.Add(x, number)


def _places(seed: int) -> Graph:
    rng, graph = random.Random(seed), Graph()
    x = graph.add_param(TensorType(DType.F32, ("N", "S")), "x")
    b = Builder(graph)
    one = b.const(np.array([1]))
    shapes = [one, b.Shape(x, end=1), b.Shape(x, start=1)]
    zero, step = b.const(np.array(0)), b.const(np.array(1))
    pool = [b.Range(zero, b.Squeeze(n, axes=(0,)), step) for n in shapes[1:]]
    for _ in range(10):
        pool.append(_placed(b, rng, pool, shapes))
    graph.outputs = pool
    return graph


def _runs(graph: Graph, run: Callable[[dict[str, int], list[np.ndarray]], None]) -> None:
    for n, s in EXTENTS:
        values: dict[Value, np.ndarray] = {}
        try:
            evaluate(graph, [np.zeros((n, s), np.float32)], values)
        except Exception:  # noqa: BLE001  (a place beyond the end, or shapes that do not fit: no such input is right)
            continue
        run({"N": n, "S": s}, [values[v] for v in graph.outputs])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(150))
def test_places_are_what_is_counted(seed: int) -> None:
    graph = _places(seed)
    name_dimensions.apply(graph)

    def check(sizes: dict[str, int], arrays: list[np.ndarray]) -> None:
        for value, array in zip(graph.outputs, arrays, strict=True):
            for e, d in zip(extents(value) or [], array.shape, strict=False):
                if e is not None and all(v is None and name in sizes for a, _ in e.terms for v, name in a):
                    assert e.value(sizes) == d, value.producer
            found = affine(value)
            if found is None or array.size == 0:
                continue
            names = {name for e in (found.base, *found.steps) for a, _ in e.terms for _, name in a}
            if not names <= sizes.keys():
                continue
            wanted = np.full(array.shape, found.base.value(sizes))
            for axis, step in enumerate(found.steps):
                index = np.arange(array.shape[axis]).reshape(-1, *[1] * (array.ndim - 1 - axis))
                wanted = wanted + step.value(sizes) * index
            np.testing.assert_array_equal(array, wanted, str(value.producer))

    _runs(graph, check)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(100))
def test_the_optimizer_keeps_places(seed: int) -> None:
    """Where the model can be run, it gives the same after all passes."""
    before, after = _places(seed), _places(seed)
    model = Model(after, [("x", after.params[0].type)], [(str(i), v.type) for i, v in enumerate(after.outputs)])
    optimize(model)

    def check(sizes: dict[str, int], arrays: list[np.ndarray]) -> None:
        got = evaluate(after, [np.zeros((sizes["N"], sizes["S"]), np.float32)])
        for g, w in zip(got, arrays, strict=True):
            np.testing.assert_array_equal(g, w)

    _runs(before, check)


def test_parts_of_shapes_that_follow_one_another() -> None:
    graph = read("graph g(%x: f32[N,S,4]) { %a: f32[?,4] = Reshape(%x, i64[2](-1, 4)) %b: f32[?,4] = Exp(%a) "
                 "%c: f32[?,4] = Concat(%b, %a) {axis=0} %s: i64[1] = Shape(%x) {end=1} "
                 "%t: i64[1] = Mul(%s, i64[](2)) %u: i64[3] = Concat(%t, i64[2](-1, 4)) {axis=0} "
                 "%y: f32[?,?,4] = Reshape(%c, %u) return %y }")  # fmt: skip
    passes["name_dimensions"].apply(graph)
    assert graph.outputs[0].type.shape == ("2*N", "S", 4)


@pytest.mark.parametrize(
    ("lines", "shape"),
    [
        ("%y: f32[1,?] = Slice(%t, i64[1](0), %s, i64[1](1))", (1, "min(S,9)")),
        ("%a: f32[1,?] = Slice(%t, i64[1](0), %s, i64[1](1)) %y: f32[N,?] = Add(%x, %a)", ("N", "S")),
        ("%a: f32[1,?] = Slice(%t, i64[1](0), %s, i64[1](1)) %b: f32[1,?] = Exp(%a) %y: f32[N,?] = Mul(%b, %x)",
         ("N", "S")),
        ("%y: f32[N,?] = Slice(%x, i64[1](0), %s, i64[1](1))", ("N", "S")),
        ("%y: f32[N,?] = Slice(%x, i64[1](1), i64[1](999999999999), i64[1](1))", ("N", "?1")),
        ("%a: f32[N,?] = Concat(%x, %x) {axis=1} %y: f32[N,?] = Slice(%a, %s, i64[1](999999999999), i64[1](1))",
         ("N", "S")),
        ("%y: f32[?,?] = Tile(%x, i64[2](2, 3))", ("2*N", "3*S")),
        ("%y: f32[?,?] = Pad(%x, i64[4](0, 1, 2, 0))", ("N+1", "S+2")),
        ("%y: f32[?,?] = Pad(%x, i64[4](0, -1, 2, 0))", ("?1", "S+2")),
        ("%a: i64[1] = Neg(%s) %y: f32[?,?,?] = Unsqueeze(%x, %a)", ("?1", "?2", "?3")),
        ("%y: f32[?] = Flatten(%x) {axis=0} ".replace("f32[?]", "f32[1,?]"), (1, "N*S")),
    ],
)  # fmt: skip
def test_types_become_formulas(lines: str, shape: tuple[int | str, ...]) -> None:
    text = f"graph g(%x: f32[N,S], %t: f32[1,9]) {{ %s: i64[1] = Shape(%x) {{start=1}} {lines} return %y }}"
    graph = read(text)
    name_dimensions.apply(graph)
    assert graph.outputs[0].type.shape == shape
