"""Singular values, symmetric eigenvalues, and the norms, ranks and pseudoinverses that PyTorch makes of them."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch
from torch import linalg
from torch_oracle import Call, check, model_of

from minnow.schema.errors import UnsupportedError

pytestmark = pytest.mark.slow

SHAPES = [(3, 3), (1, 1), (0, 0), (5, 3), (3, 5), (2, 7, 7), (2, 0, 4, 3), (0, 3), (3, 0), (1, 4), (2, 1), (2, 2)]
SQUARE = [(3, 3), (1, 1), (0, 0), (2, 7, 7), (2, 2)]
ORDERS = [2, -2, "fro", "nuc", 1, -1, math.inf, -math.inf]


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values(shape):
    check(
        lambda x: [linalg.svdvals(x), linalg.matrix_rank(x), linalg.pinv(x), torch.norm(x, p="nuc", dim=(-2, -1))],
        _random(*shape, seed=1),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("shape", SQUARE)
def test_eigenvalues_of_symmetric_matrices(shape):
    x = _random(*shape, seed=2)
    check(lambda x: [linalg.eigvalsh(x), linalg.eigvalsh(x, UPLO="U")], x)


def test_special_matrices():
    low = _random(2, 7, 3) @ _random(2, 3, 6, seed=1)
    check(lambda x: [linalg.matrix_rank(x), linalg.pinv(x), linalg.svdvals(x)], low, tolerance=1e-4)
    for x in (torch.zeros(4, 4), torch.eye(5), torch.diag(torch.tensor([3.0, -5, 0, 1, 1])), torch.ones(3, 3)):
        check(lambda x: [linalg.matrix_rank(x), linalg.pinv(x), linalg.svdvals(x), linalg.eigvalsh(x)], x)
    check(lambda x: [linalg.svdvals(x), linalg.eigvalsh(x), linalg.pinv(x)], _random(9, 9).double())
    check(linalg.svdvals, _random(40, 33))


def test_ranks_up_to_a_tolerance():
    check(
        lambda x: [
            linalg.matrix_rank(x, atol=torch.tensor([1.0, 3.0])),
            linalg.matrix_rank(x, atol=torch.tensor(1.0)),
            linalg.matrix_rank(x, rtol=0.5),
            linalg.matrix_rank(x, tol=2.0),
            linalg.matrix_rank(x @ x.mT, hermitian=True),
            linalg.pinv(x, atol=0.1, rtol=0.2),
            torch.pinverse(x, 0.3),
        ],
        _random(2, 5, 5),
        tolerance=1e-4,
    )


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_matrix_norms(order):
    check(
        lambda x: [
            linalg.matrix_norm(x, order),
            linalg.matrix_norm(x, order, dim=(2, 0), keepdim=True),
            linalg.norm(x[0], order),
            linalg.cond(x[:, :, :3], order),
        ],
        _random(2, 3, 5, seed=3),
        tolerance=1e-4,
    )


def test_norms():
    x = _random(5, 7)
    check(lambda x: [linalg.norm(x), linalg.norm(x, 2, dim=1), linalg.norm(x, keepdim=True), linalg.norm(x[0], 3)], x)
    check(lambda x: [linalg.norm(x, 1, keepdim=True), linalg.norm(x.mT, 2)], torch.zeros(5, 0))
    check(lambda x: linalg.cond(x, 1), torch.tensor([[1.0, 2], [2, 4]]))
    check(lambda x: linalg.cond(x), torch.eye(4))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelss", "gelsd"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (4, 1)])
def test_least_squares(driver, shape):
    # PyTorch exports none of these.
    def solve(a, y):
        x, residuals, rank, values = linalg.lstsq(a, y, driver=driver)
        return [x, rank, values, *([residuals] if driver in ("gels", "gelsy") else [])]

    check(solve, _random(*shape), _random(*shape[:-1], 2, seed=1), roads=["trace"], tolerance=1e-4)


def test_values_without_vectors():
    check(lambda x: [linalg.svd(x)[1], torch.svd(x)[1], linalg.eigh(x)[0]], _random(4, 4))
    for part in (0, 2):
        with pytest.raises(UnsupportedError, match="signs"):
            model_of(Call(lambda x, part=part: linalg.svd(x)[part] + 1), [torch.eye(3)], "trace")
