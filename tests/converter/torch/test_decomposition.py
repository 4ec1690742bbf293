"""PyTorch's factors of matrices: they are unique, signs and pivots included, so that LAPACK's are the measure."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch import linalg
from torch_oracle import Call, check, difference, exported, model_of, run

from minnow.converter.torch.reader import translate
from minnow.schema.errors import UnsupportedError

pytestmark = pytest.mark.slow

SQUARE = [(3, 3), (1, 1), (0, 0), (2, 5, 5), (0, 4, 4), (2, 1, 2, 2), (11, 11)]
ANY = [*SQUARE, (5, 3), (3, 5), (2, 0, 4, 3), (0, 3), (3, 0), (1, 4), (4, 1), (2, 3, 11, 13)]


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _positive(*shape):
    x = _random(*shape)
    return x @ x.mT + torch.eye(shape[-1])


def _checked(function, *args, **more):
    """Named tuples are no outputs of an exported program."""

    def call(*xs):
        made = function(*xs)
        return list(made) if isinstance(made, tuple) else made

    check(call, *args, **more)


@pytest.mark.parametrize("shape", SQUARE)
def test_cholesky(shape):
    x = _positive(*shape)
    _checked(lambda x: (linalg.cholesky(x), linalg.cholesky(x, upper=True), *linalg.cholesky_ex(x)), x)


def test_cholesky_reads_one_triangle():
    x = _positive(3, 6, 6)
    _checked(lambda x: (linalg.cholesky(x.tril()), linalg.cholesky(x.triu(), upper=True)), x)


def test_cholesky_says_where_it_fails():
    x = torch.stack([torch.diag(torch.tensor(d)) for d in ([1.0, 2, 3, 4, 5], [1.0, 1, 0, 1, -1], [-1.0, 1, 1, 1, 1])])
    _checked(lambda x: linalg.cholesky_ex(x)[1], x)


def test_cholesky_solves():
    x, y = _positive(2, 5, 5), _random(2, 5, 3)
    _checked(lambda x, y: torch.cholesky_solve(y, linalg.cholesky(x)), x, y)
    _checked(lambda x: torch.cholesky_inverse(linalg.cholesky(x, upper=True), upper=True), x)


@pytest.mark.parametrize("shape", ANY)
def test_lu(shape):
    x = _random(*shape, seed=1)
    _checked(lambda x: (*linalg.lu(x), *linalg.lu_factor_ex(x)), x)
    _checked(lambda x: torch.lu_unpack(*linalg.lu_factor(x)), x)


def test_lu_of_singular_matrices():
    x = torch.tensor(
        [[[1.0, 2, 3], [2, 4, 6], [0, 0, 1]], [[0, 0, 0], [0, 1, 2], [0, 2, 5]], [[2, 0, 0], [0, 4, 0], [0, 0, 1]]]
    )
    _checked(lambda x: linalg.lu_factor_ex(x), x)


def test_whether_matrices_are_singular():
    x = torch.tensor(
        [[[1.0, 2, 3], [2, 4, 6], [0, 0, 1]], [[0, 0, 0], [0, 1, 2], [0, 2, 5]], [[2, 1, 0], [0, 4, 0], [0, 0, 1]]]
    )
    _checked(lambda x: (linalg.inv_ex(x)[1], linalg.solve_ex(x, x)[1]), x)
    _checked(lambda x: linalg.inv_ex(x), x[2])


def test_batches_of_any_size():
    x, batch = _random(4, 5, 3), torch.export.Dim("batch", min=2)
    program = exported(
        Call(lambda x: [*linalg.qr(x), *linalg.lu(x), linalg.svdvals(x), linalg.pinv(x)]), [x], [({0: batch},)]
    )
    y = _random(7, 5, 3, seed=1)
    want = [*linalg.qr(y), *linalg.lu(y), linalg.svdvals(y), linalg.pinv(y)]
    got = run(translate(program, "export"), [y])
    assert all(difference(g, w.numpy()) < 1e-4 for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_lu_solves(left, adjoint):
    x, y = _random(2, 7, 7), _random(2, 7, 7, seed=2)
    _checked(lambda x, y: linalg.lu_solve(*linalg.lu_factor(x), y, left=left, adjoint=adjoint), x, y, tolerance=1e-4)


@pytest.mark.parametrize("shape", ANY)
def test_qr(shape):
    x = _random(*shape, seed=3)
    _checked(lambda x: [part for mode in ("reduced", "complete", "r") for part in linalg.qr(x, mode=mode)], x)


def test_qr_of_columns_that_are_zero():
    x = torch.tensor([[0.0, 2, 1], [0, 0, 3], [0, 0, -4], [0, 0, 0]])
    _checked(lambda x: (*torch.geqrf(x), *linalg.qr(x)), x)


@pytest.mark.parametrize("shape", [(3, 3), (7, 4), (2, 6, 5), (2, 4, 0), (0, 3, 3), (4, 1)])
def test_reflections(shape):
    x = _random(*shape, seed=4)
    _checked(lambda x: (*torch.geqrf(x), linalg.householder_product(*torch.geqrf(x))), x)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_reflections_of_another_matrix(left, transpose):
    x, y = _random(2, 5, 3), _random(2, 5, 5, seed=5)
    _checked(lambda x, y: torch.ormqr(*torch.geqrf(x), y, left=left, transpose=transpose), x, y)


@pytest.mark.parametrize("shape", SQUARE)
def test_exponential(shape):
    _checked(torch.matrix_exp, _random(*shape))


def test_exponential_of_large_and_small_matrices():
    _checked(torch.matrix_exp, _random(3, 6, 6) * torch.tensor([1e-3, 1, 20])[:, None, None])


def test_float64():
    _checked(lambda x: (*linalg.qr(x), *linalg.lu(x), torch.matrix_exp(x)), _random(2, 9, 9).double())


def test_what_is_refused_says_why():
    with pytest.raises(UnsupportedError, match="Bunch-Kaufman"):
        model_of(Call(lambda x: list(linalg.ldl_factor(x))), [_positive(3, 3)], "trace")
