"""`minnow.numpy` gives what numpy gives: each name, at once and in a graph; and where it does not, as documented."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_cases import ARRAYS, SAME, calls, names_in

import minnow.numpy as mnp
from minnow import expr
from minnow.errors import UsageError
from minnow.expr import Var
from minnow.expr.names import all_names

OLD = {
    "asfarray": lambda a: np.asarray(a, np.float32),
    "asscalar": lambda a: a.item(),
    "flatiter": lambda a: a.flat,
    "mat": np.asmatrix,
    "msort": lambda a: np.sort(a, 0),
    "repmat": lambda a, m, n: np.tile(a, (m, n)),
    "round_": np.round,
    "row_stack": np.vstack,
    "shape": lambda a: list(a.shape),
    "broadcast": lambda *a: list(np.broadcast_arrays(*a)),
    "sort_complex": np.sort,
    "trapz": getattr(np, "trapezoid", None) or np.trapz,
    "nditer": lambda a: a.ravel(),
}
"""What numpy has no more, or otherwise."""


class Oracle:
    def __getattr__(self, name: str) -> Any:
        return OLD[name] if name in OLD else getattr(np, name)


def variables(make: Any) -> dict[str, Any]:
    return {name: make(array) for name, array in ARRAYS.items()}


def evaluated(case: str, module: Any, values: dict[str, Any]) -> Any:
    names = {n: getattr(module, n) for n in names_in(case) if "." not in n and n not in ("list", "range", "lambda")
             and (n in OLD or hasattr(np, n) or hasattr(mnp, n))}  # fmt: skip
    return eval(case, {**names, **values, "linalg": module.linalg, "np": module})


def parts(value: Any) -> list[Any]:
    """Arrays of a result, in order."""
    if isinstance(value, (list, tuple)):
        return [p for v in value for p in parts(v)]
    return [value]


def assert_same(ours: Any, theirs: Any, rtol: float, case: str) -> None:
    mine, others = parts(ours), parts(theirs)
    assert len(mine) == len(others), case
    for a, b in zip(mine, others, strict=True):
        if isinstance(b, str):
            assert a == b, case
            continue
        b = np.asarray(b)
        if isinstance(a, Var):
            got = a.read()
            assert a.shape == list(b.shape) == list(got.shape), case
            assert a.dtype == got.dtype
            assert got.dtype.kind == {"f": "f", "i": "i", "u": got.dtype.kind, "b": "i"}[b.dtype.kind], case
        else:
            assert b.ndim == 0, case
            got = np.asarray(a)
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, b, rtol, 1e-6 if rtol > 1e-6 else 1e-7, err_msg=case)
        else:
            np.testing.assert_array_equal(got, b, err_msg=case)


@pytest.fixture
def lazy() -> Iterator[None]:
    expr.lazy_eval(True)
    yield
    expr.lazy_eval(False)


def theirs_of(case: str) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return evaluated(case, Oracle(), {n: a.copy() for n, a in ARRAYS.items()})


@pytest.mark.parametrize("case", calls(SAME))
def test_results_are_those_of_numpy(case: str) -> None:
    ours = evaluated(case, mnp, variables(lambda a: Var.from_array(a.copy())))
    assert_same(ours, theirs_of(case), 1e-6, case)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", calls(SAME))
def test_graphs_give_the_same(case: str, lazy: None) -> None:
    def written(array: np.ndarray[Any, Any]) -> Var:
        var = expr.placeholder(array.shape, dtype=array.dtype if array.dtype != np.float64 else expr.double)
        var.write(array)
        return var

    assert_same(evaluated(case, mnp, variables(written)), theirs_of(case), 1e-5, case)


def covered() -> set[str]:
    source = Path(__file__).read_text()
    own = names_in(source.replace("mnp.random.", "random.").replace("mnp.", ""))
    return own.union(*(names_in(case) for case in calls(SAME)))


def test_every_name_is_called() -> None:
    names = [e for e in all_names("numpy") if e.callable]
    missing = (
        {e.ours for e in names}
        - {f"minnow.numpy.{n}" for n in covered()}
        - {"minnow.numpy.ndarray", "minnow.numpy.dtype"}
    )
    assert not missing, sorted(missing)
    assert len([e for e in names if e.package == "numpy"]) >= 278


def test_arguments_count_in_graphs_too(lazy: None) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = expr.placeholder([2, 3])
    x.write(array)
    for order in ("C", "F"):
        np.testing.assert_array_equal(mnp.ravel(x, order).read(), array.ravel(order))
        np.testing.assert_array_equal(mnp.reshape(x, [3, -1], order=order).read(), array.reshape((3, 2), order=order))
    with pytest.raises(UsageError):
        mnp.reshape(x, [3, 2], order="Z")
    assert mnp.concatenate([x, x], 0, dtype=np.float64).dtype == mnp.float64
    for function, shape in ((mnp.concatenate, [4, 3]), (mnp.stack, [2, 2, 3])):
        out = mnp.zeros(shape, mnp.float32)
        assert function([x, x], 0, out) is out
        np.testing.assert_array_equal(out.read(), np.reshape([array, array], shape))
    out = mnp.zeros([2], mnp.float32)
    assert mnp.ptp(x, 1, out) is out
    np.testing.assert_array_equal(out.read(), [2, 2])


# ---- what numpy does otherwise


def test_default_types() -> None:
    assert mnp.zeros([2]).dtype == mnp.ones([2]).dtype == mnp.full([2], 1).dtype == mnp.arange(3).dtype == mnp.int32
    assert mnp.empty([2, 3]).dtype == mnp.eye(2).dtype == mnp.linspace(0, 1, 3).dtype == mnp.float32
    assert mnp.empty_like(Var([1, 2])).dtype == mnp.int32
    assert mnp.array(np.ones(2)).dtype == mnp.float32
    assert mnp.array(np.ones(2), mnp.float64).dtype == mnp.float64
    assert mnp.zeros([2], np.float64).dtype == mnp.float64


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, mnp.float64])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_statistics_in_a_type(name: str, dtype: Any, is_lazy: bool) -> None:
    values = np.array([[1, 2, 4], [10_000_001, 10_000_002, 10_000_000]], np.float32)
    expr.lazy_eval(is_lazy)
    try:
        got = getattr(mnp, name)(Var(values), 1, dtype)
        want = getattr(np, name)(values, 1, np.dtype(dtype))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.read(), want, 1e-12 if want.dtype == np.float64 else 1e-6)
    finally:
        expr.lazy_eval(False)


def test_quotients_of_integers_are_integers() -> None:
    for function in (mnp.divide, mnp.true_divide):
        np.testing.assert_array_equal(function(Var([7, -7, 5]), Var([2, 2, 0])).read(), [3, -3, 0])


def test_a_seed_gives_the_same_numbers() -> None:
    rows = []
    for _ in range(2):
        mnp.random.seed(3)
        made = [
            mnp.random.random([1000]),
            mnp.random.rand(10, 100),
            mnp.random.randn(1000),
            mnp.random.randint(3, 9, [1000]),
        ]
        rows.append([v.read() for v in made])
    for a, b in zip(*rows, strict=True):
        np.testing.assert_array_equal(a, b)
    uniform, _, normal, ints = rows[0]
    assert 0.45 < uniform.mean() < 0.55
    assert 0 <= uniform.min() < uniform.max() < 1
    assert abs(normal.mean()) < 0.15
    assert 0.9 < normal.std() < 1.1
    assert (ints.min(), ints.max()) == (3, 8)
    assert isinstance(mnp.random.randint(5), int)


def test_functions_that_change_a_var() -> None:
    cases: list[tuple[str, tuple[Any, ...]]] = [
        ("fill_diagonal", (7,)), ("put", ([0, 2], [5, 6])), ("putmask", (ARRAYS["s"] > 1, 9.0)),
        ("place", (ARRAYS["s"] > 1, [1.0, 2.0])), ("put_along_axis", (np.array([[0], [1], [2]]), 3.0, 1)),
        ("copyto", (np.float32(2),)),
    ]  # fmt: skip
    for name, arguments in cases:
        want = ARRAYS["s"].copy()
        getattr(np, name)(want, *arguments)
        var = Var(ARRAYS["s"])
        part = var[0]
        assert {"fill_diagonal": mnp.fill_diagonal, "put": mnp.put, "putmask": mnp.putmask, "place": mnp.place,
                "put_along_axis": mnp.put_along_axis, "copyto": mnp.copyto}[name](var, *arguments) is None  # fmt: skip
        np.testing.assert_array_equal(var.read(), want, err_msg=name)
        np.testing.assert_array_equal(part.read(), ARRAYS["s"][0])
    var = Var([1.0, 2.0])
    mnp.fill(var, 4)
    np.testing.assert_array_equal(var.read(), [4, 4])


# The names are here so that the test above finds them.
CHANGING = "fill_diagonal(a) put(a) putmask(a) place(a) put_along_axis(a) copyto(a)"


def test_files(tmp_path: Any) -> None:
    text, raw = tmp_path / "a.txt", tmp_path / "a.bin"
    np.savetxt(text, ARRAYS["m"])
    ARRAYS["f"].tofile(raw)
    np.testing.assert_array_equal(mnp.loadtxt(str(text)).read(), ARRAYS["m"])
    np.testing.assert_array_equal(mnp.fromfile(str(raw)).read(), ARRAYS["f"])
    with pytest.raises(UsageError):
        mnp.loadtxt(str(raw))
    with pytest.raises(UsageError):
        mnp.fromfile(str(tmp_path / "none"))


def test_iterators() -> None:
    assert list(mnp.nditer([Var([1, 2]), Var([[3], [4]])])) == [(1, 3), (2, 3), (1, 4), (2, 4)]
    outer, inner = mnp.nested_iters(Var([[1, 2], [3, 4]]), [[0], [1]])
    assert [[int(v) for v in inner] for _ in outer] == [[1, 2], [3, 4]]


def test_out_is_written() -> None:
    out = mnp.zeros([2], mnp.float32)
    assert mnp.dot(Var(np.eye(2)), Var([1.0, 2.0]), out) is out
    np.testing.assert_array_equal(out.read(), [1, 2])
    with pytest.raises(UsageError, match="shape"):
        mnp.sum(Var([[1, 2], [3, 4]]), 0, mnp.zeros([3]))


def test_refusals_are_errors_of_ours() -> None:
    for call in (
        lambda: mnp.reshape(Var([1, 2, 3]), [2, 2]),
        lambda: mnp.concatenate([Var([1]), Var([[1]])]),
        lambda: mnp.array("text"),
        lambda: mnp.array([1, "a"]),
        lambda: mnp.array([[1], [1, 2]]),
        lambda: mnp.array(2**70),
        lambda: mnp.zeros([-1]),
        lambda: mnp.zeros_like(Var([1]), shape=[2**62, 2**62]),
        lambda: mnp.fromfunction(lambda i, j: i, [2**62, 2**62]),
        lambda: mnp.mean(Var([1, 2]), dtype="nonsense"),
        lambda: mnp.array([1j]),
        lambda: mnp.linalg.solve(Var([[1.0, 2.0]]), Var([1.0])),
        lambda: mnp.add(Var([1, 2]), Var([1, 2, 3])),
        lambda: Var([1.5]) & 1,
        lambda: Var([1, 2, 3])[5],
        lambda: mnp.where(Var([1]), 2),
    ):
        with pytest.raises(UsageError):
            call()
