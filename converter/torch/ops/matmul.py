"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import ascii_letters
from typing import Any

import numpy as np

from minnow.converter.decomposition.einsum import einsum
from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in
from minnow.converter.torch.symbolic.dtype import as_value, operands
from minnow.converter.torch.symbolic.part import diagonal
from minnow.converter.torch.symbolic.tensor import Number
from minnow.converter.torch.symbolic.view import reshape
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def product(b: Builder, x: Value, y: Value) -> Value:
    """The matrix product, by numpy's rules."""
    made: Value = b.MatMul(*operands(b, x, y))
    return made


@torch.op("aten::matmul", "aten::linalg_matmul", "aten::__matmul__")
def _(b, self, other):
    return product(b, self, other)


@torch.op("aten::mm", "aten::bmm")
def _(b, self, mat2):
    return product(b, self, mat2)


@torch.op("aten::mv")
def _(b, self, vec):
    return product(b, self, vec)


@torch.op("aten::dot")
def _(b, self, tensor):
    return product(b, self, tensor)


@torch.op("aten::vdot")
def _(b, self, other):
    return product(b, self, other)


def outer(b: Builder, x: Value, y: Value) -> Value:
    """All products of the elements of two vectors."""
    x, y = operands(b, x, y)
    wide, tall = b.Unsqueeze(x, axes=(1,)), b.Unsqueeze(y, axes=(0,))
    made: Value = b.And(wide, tall) if x.type.dtype is DType.BOOL else b.Mul(wide, tall)
    return made


@torch.op("aten::outer", "aten::ger")
def _(b, self, vec2):
    return outer(b, self, vec2)


# ---- sums of a product and something else


def _times(b: Builder, x: Value, factor: Any) -> Value:
    if not isinstance(factor, (bool, Number)) and factor == 1:
        return x
    made: Value = b.Mul(x, as_value(b, factor, x.type.dtype))
    return made


def _added(b: Builder, x: Value, product: Value, beta: Any, alpha: Any) -> Value:
    """beta * x + alpha * product; nothing of x counts where beta is 0, NaN neither."""
    product = _times(b, product, alpha)
    if not isinstance(beta, Number) and beta == 0:
        return product
    made: Value = b.Add(product, _times(b, as_value(b, x, product.type.dtype), beta))
    return made


@torch.op("aten::addmm")
def _(b, self, mat1, mat2, beta=1, alpha=1):
    return _added(b, self, product(b, mat1, mat2), beta, alpha)


@torch.op("aten::baddbmm")
def _(b, self, batch1, batch2, beta=1, alpha=1):
    return _added(b, self, product(b, batch1, batch2), beta, alpha)


@torch.op("aten::addbmm")
def _(b, self, batch1, batch2, beta=1, alpha=1):
    return _added(b, self, b.ReduceSum(product(b, batch1, batch2), axes=(0,), keepdims=False), beta, alpha)


@torch.op("aten::addmv")
def _(b, self, mat, vec, beta=1, alpha=1):
    return _added(b, self, product(b, mat, vec), beta, alpha)


@torch.op("aten::addr")
def _(b, self, vec1, vec2, beta=1, alpha=1):
    x, u, v = operands(b, self, vec1, vec2)
    if x.type.dtype is DType.BOOL:
        u, v = (b.And(w, bool(f)) for w, f in ((u, alpha), (v, True)))
        return b.Or(b.And(x, bool(beta)), outer(b, u, v))
    return _added(b, x, outer(b, u, v), beta, alpha)


# ---- along any axes


@torch.op("aten::einsum")
def _(b, equation, tensors, path=None):
    return einsum(b, equation, operands(b, *tensors))


@torch.op("aten::tensordot")
def _(b, self, other, dims_self, dims_other):
    return tensordot(b, self, other, dims_self, dims_other)


def tensordot(b: Builder, x: Value, y: Value, axes_x: Sequence[int], axes_y: Sequence[int]) -> Value:
    """The sum of products over pairs of axes."""
    m, n = rank(x, "an operand"), rank(y, "an operand")
    first, second = list(ascii_letters[:m]), list(ascii_letters[m : m + n])
    for i, j in zip(axes_x, axes_y, strict=True):
        second[axis_in(j, n)] = first[axis_in(i, m)]
    kept = [c for c in first if c not in second] + [c for c in second if c not in first]
    return einsum(b, f"{''.join(first)},{''.join(second)}->{''.join(kept)}", operands(b, x, y))


@torch.op("aten::inner")
def _(b, self, other):
    if not rank(self, "an operand") or not rank(other, "an operand"):
        return b.Mul(*operands(b, self, other))
    return product(b, self, other) if other.type.rank == 1 else tensordot(b, self, other, [-1], [-1])


@torch.op("aten::linalg_vecdot")
def _(b, x, y, dim=-1):
    z = b.Mul(*operands(b, x, y))
    return b.ReduceSum(z, axes=(dim,), keepdims=False)


@torch.op("aten::linalg_multi_dot", "aten::chain_matmul")
def _(b, tensors):
    return reduce(lambda x, y: product(b, x, y), tensors)


@torch.op("aten::kron")
def _(b, self, other):
    x, y = operands(b, self, other)
    n = max(rank(x, "an operand"), rank(y, "an operand"))
    x, y = (b.Unsqueeze(v, axes=tuple(range(n - rank(v, "")))) if rank(v, "") < n else v for v in (x, y))
    if n == 0:
        return b.Mul(x, y)
    every = tuple(range(2 * n))
    z = b.Mul(b.Unsqueeze(x, axes=every[1::2]), b.Unsqueeze(y, axes=every[::2]))
    sizes = [static_dim(x.type, i, "an operand") * static_dim(y.type, i, "an operand") for i in range(n)]
    return reshape(b, z, sizes)


def cross(b: Builder, x: Value, y: Value, dim: int) -> Value:
    """The vector products along an axis of three elements."""
    x, y = operands(b, x, y)

    def turned(v: Value, by: int) -> Value:
        made: Value = b.Gather(v, np.array([by, (by + 1) % 3, (by + 2) % 3]), axis=axis_in(dim, rank(v, "a vector")))
        return made

    made: Value = b.Sub(b.Mul(turned(x, 1), turned(y, 2)), b.Mul(turned(x, 2), turned(y, 1)))
    return made


@torch.op("aten::cross")
def _(b, self, other, dim=None):
    if dim is None:
        shape = self.type.shape or ()
        if 3 not in shape:
            raise ModelError(f"{self.type} has no axis of three elements")
        dim = shape.index(3)
    return cross(b, self, other, dim)


@torch.op("aten::linalg_cross")
def _(b, self, other, dim=-1):
    return cross(b, self, other, dim)


@torch.op("aten::trace")
def _(b, self):
    elements = diagonal(b, self)
    if not elements.type.dtype.is_float and elements.type.dtype is not DType.I64:
        elements = b.Cast(elements, to=DType.I64)
    return b.ReduceSum(elements, axes=(0,), keepdims=False)
