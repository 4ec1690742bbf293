"""PyTorch's products of matrices, and what inverses and determinants give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_oracle import Call, check, model_of  # noqa: E402

from minnow.schema.errors import UnsupportedError  # noqa: E402

Function = Callable[..., Any]


def _x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _all(functions: list[Function], *args: torch.Tensor, **keywords: Any) -> None:
    check(lambda *xs: tuple(f(*xs) for f in functions), *args, **keywords)


def test_products() -> None:
    functions: list[Function] = [
        lambda a, c, v, p, q: a @ c,
        lambda a, c, v, p, q: a @ v,
        lambda a, c, v, p, q: v @ c,
        lambda a, c, v, p, q: v @ v,
        lambda a, c, v, p, q: p[:, None, None] @ q,
        lambda a, c, v, p, q: p @ v,
        lambda a, c, v, p, q: torch.mm(a, c),
        lambda a, c, v, p, q: torch.bmm(p, q),
        lambda a, c, v, p, q: torch.mv(a, v),
        lambda a, c, v, p, q: torch.dot(v, v),
        lambda a, c, v, p, q: torch.vdot(v, v),
        lambda a, c, v, p, q: torch.outer(v, a[:, 0]),
        lambda a, c, v, p, q: torch.inner(a, c.t()),
        lambda a, c, v, p, q: torch.inner(a, v),
        lambda a, c, v, p, q: torch.inner(v[0], a),
        lambda a, c, v, p, q: torch.inner(p, c.t()),
        lambda a, c, v, p, q: torch.kron(a, c),
        lambda a, c, v, p, q: torch.kron(a, v),
        lambda a, c, v, p, q: torch.kron(v[0], a),
        lambda a, c, v, p, q: torch.linalg.multi_dot([v, c, c.t(), v]),
        lambda a, c, v, p, q: torch.cross(p[:, 0, :3], p[:, 1, :3], dim=1),
        lambda a, c, v, p, q: torch.cross(a, p[0]),
        lambda a, c, v, p, q: torch.linalg.cross(a[:1, :3], a[:, 1:4]),
        lambda a, c, v, p, q: torch.linalg.vecdot(a, p),
        lambda a, c, v, p, q: torch.linalg.vecdot(a, p, dim=0),
        lambda a, c, v, p, q: torch.trace(a),
        lambda a, c, v, p, q: torch.linalg.vander(a, N=4),
        lambda a, c, v, p, q: torch.vander(v),
    ]
    _all(functions, _x(3, 5), _x(5, 7), _x(5), _x(2, 3, 5), _x(2, 5, 7))


def test_sums_with_products() -> None:
    functions: list[Function] = [
        lambda m, a, c, p, q: torch.addmm(m[0], a, c, beta=0.5, alpha=2),
        lambda m, a, c, p, q: torch.addmm(m, a, c),
        lambda m, a, c, p, q: torch.addmm(m * float("nan"), a, c, beta=0),
        lambda m, a, c, p, q: torch.baddbmm(m, p, q, alpha=3),
        lambda m, a, c, p, q: torch.addbmm(m, p, q, beta=2),
        lambda m, a, c, p, q: torch.addmv(m[:, 0], a, c[:, 0]),
        lambda m, a, c, p, q: torch.addr(m, a[:, 0], m[0], alpha=3),
    ]
    _all(functions, _x(3, 7), _x(3, 5), _x(5, 7), _x(2, 3, 5), _x(2, 5, 7))


def test_integers() -> None:
    functions: list[Function] = [
        lambda a, c: a @ c,
        lambda a, c: torch.addmm(c[0], a, c, beta=2, alpha=3),
        lambda a, c: torch.outer(a[0], a[0] * 0.5),
        lambda a, c: torch.trace(a),
        lambda a, c: torch.trace(a.to(torch.int8)),
        lambda a, c: torch.vander(a[0], 3, True),
    ]
    _all(functions, torch.arange(-7, 8).view(3, 5), torch.arange(10).view(5, 2))


def test_along_any_axes() -> None:
    functions: list[Function] = [
        lambda a, c, v, p, q: torch.einsum("bij,bjk->bik", p, q),
        lambda a, c, v, p, q: torch.einsum("ii->i", a[:, :3]),
        lambda a, c, v, p, q: torch.einsum("...ij, jk -> ...ik", p, c),
        lambda a, c, v, p, q: torch.einsum("i,j", v, v),
        lambda a, c, v, p, q: torch.einsum("bn,anm,bm->ba", p[:, 0], q.transpose(0, 1)[:2].transpose(1, 2)[:, :5, :],
                                           p[:, 0, :2]),
        lambda a, c, v, p, q: torch.einsum("Aa->aA", a),
        lambda a, c, v, p, q: torch.einsum(a, [0, 1], c, [1, 2], [2, 0]),
        lambda a, c, v, p, q: torch.tensordot(p, p, dims=([0, 2], [0, 2])),
        lambda a, c, v, p, q: torch.tensordot(p, q, dims=([2], [1])),
        lambda a, c, v, p, q: torch.tensordot(a, v, dims=0),
    ]  # fmt: skip
    _all(functions, _x(3, 5), _x(5, 7), _x(5), _x(2, 3, 5), _x(2, 5, 7))


def test_square_matrices() -> None:
    functions: list[Function] = [
        *[lambda s, m, y, n=n: torch.matrix_power(m, n) for n in (0, 1, 2, 5, -1, -3)],
        lambda s, m, y: torch.det(s),
        lambda s, m, y: torch.linalg.det(m),
        lambda s, m, y: torch.logdet(s),
        lambda s, m, y: tuple(torch.linalg.slogdet(m)),
        lambda s, m, y: torch.inverse(m),
        lambda s, m, y: torch.linalg.inv(s),
        lambda s, m, y: tuple(torch.linalg.inv_ex(m)),
        lambda s, m, y: torch.linalg.solve(m, y),
        lambda s, m, y: torch.linalg.solve(m, y[..., 0]),
        lambda s, m, y: torch.linalg.solve(s, s[0]),
        lambda s, m, y: torch.linalg.solve(s, y[0].t(), left=False) if y.shape[1] == 4 else s,
        lambda s, m, y: torch.linalg.solve_triangular(m, y, upper=True),
        lambda s, m, y: torch.linalg.solve_triangular(m, y, upper=False, unitriangular=True),
        lambda s, m, y: torch.cholesky_inverse(s),
        lambda s, m, y: torch.cholesky_solve(s[:, :1], s),
    ]
    _all(functions, _x(4, 4), _x(2, 3, 3) + torch.eye(3), _x(2, 3, 4), tolerance=2e-4)


def test_a_determinant_beyond_float32_has_a_logarithm() -> None:
    check(lambda x: tuple(torch.linalg.slogdet(x)), _x(64, 64) * 10, tolerance=1e-5)


def test_covariances() -> None:
    functions: list[Function] = [
        lambda a, n, w: torch.cov(a),
        lambda a, n, w: torch.cov(a[0]),
        lambda a, n, w: torch.cov(a, correction=0, aweights=w),
        lambda a, n, w: torch.cov(a, fweights=n, aweights=w),
        lambda a, n, w: torch.cov(a[:1], fweights=n),
        lambda a, n, w: torch.corrcoef(a),
        lambda a, n, w: torch.corrcoef(a[0]),
    ]
    # PyTorch exports none of these.
    _all(functions, _x(3, 5), torch.tensor([1, 2, 3, 1, 2]), _x(5).abs(), roads=["trace"])


def test_decompositions_are_refused_with_a_reason() -> None:
    refused = {
        "complex numbers": torch.linalg.eigvals,
        "the signs that LAPACK gives": lambda x: torch.linalg.svd(x)[0],
    }
    for why, function in refused.items():
        with pytest.raises(UnsupportedError, match=why):
            model_of(Call(function), [torch.eye(3)], "trace")
