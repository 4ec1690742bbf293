"""One call at least of every name of `minnow.numpy`, as text that is also valid for numpy itself.

f, g: float vectors, g above 0; m, n, s: float matrices; c: a batch of matrices; x: floats with NaN and infinities;
i, k: ints; j: an int matrix; u: uint8; w: int64; d: double.
"""

from __future__ import annotations

import re

import numpy as np

ARRAYS = {
    "f": np.array([0.5, -1.25, 3.0, -2.5, 1.5], np.float32),
    "g": np.array([0.25, 1.75, 0.5, 3.0, 2.0], np.float32),
    "m": np.array([[1, 2, 3], [4, -5, 6.5]], np.float32),
    "n": np.array([[2.0, -1.0], [0.5, 4.0], [1.0, 3.0]], np.float32),
    "s": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, 2.0, 5.0]], np.float32),
    "c": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 3,
    "x": np.array([1, np.nan, -np.inf, 2.5, np.inf], np.float32),
    "i": np.array([3, 1, 2, 1, 0], np.int32),
    "k": np.array([7, -3, 5, 2, 4], np.int32),
    "j": np.array([[3, 0, 2], [1, 5, 4]], np.int32),
    "u": np.array([200, 100, 7, 0, 255], np.uint8),
    "w": np.array([2**40, 1, -(2**35), 3, 9], np.int64),
    "d": np.array([1.1, 2.2, -3.3], np.float64),
}

SAME = """
abs(f) abs(i) abs(w) absolute(m) add(f, 1.5) add(m, g[:3]) add(w, i) add(u, u) all(i) all(j, 1)
all(m, None, None, True) allclose(f, f) amax(m) amax(j, 0) amin(m, 1) any(i) any(j, axis=0) append(f, g)
append(m, m, 0) arange(5) arange(1, 9, 3) arange(2.5) arccos(f / 4) arccosh(g + 1) arcsin(f / 4) arcsinh(f) arctan(f)
arctan2(f, g) arctanh(f / 4) argmax(m) argmax(m, 1) argmax(i) argmin(m, 0) argmin(f) argpartition(f, 2) argsort(f)
argsort(m, 0) argwhere(j) around(f) around(f, 1) array([1, 2]) array([1.5, 2]) array([1, 2**40]) array(u) array([])
array(f, ndmin=2) array_equal(f, f) array_equal(f, g) array_equiv(f, f) array_split(f, 3) asanyarray(f) asarray(i)
asarray_chkfinite(f) ascontiguousarray(m) asfarray(i) asfortranarray(m) asmatrix(f) atleast_1d(f) atleast_1d(3)
atleast_2d(f) atleast_3d(m) average(f) average(m, 1) average(f, None, g) base_repr(10, 3) binary_repr(10) bincount(i)
bitwise_and(i, 2) bitwise_or(i, k) bitwise_xor(i, k) block([[m, m], [m, m]]) bmat([[m, m]])
broadcast_arrays(f, m[:, :1]) broadcast_to(f, [2, 5]) cbrt(f) ceil(f) choose(i % 2, [f, g]) clip(f, -1, 1)
clip(f, g - 1, 2.0) clip(i, 1, 2) column_stack([f, g]) compress(f > 0, g) concatenate([f, g]) concatenate([m, m], 1)
concatenate([f, i]) convolve(f, g) convolve(f, g[:2], "valid") copy(m) copysign(f, g) corrcoef(s) correlate(f, g)
cos(f) cosh(f) count_nonzero(i) count_nonzero(j, 0) count_nonzero(f > 0) cov(s) cross(f[:3], g[:3]) cumprod(f)
cumprod(m, 1) cumsum(i) cumsum(m, 0) cumsum(w) deg2rad(f) degrees(f) delete(f, 1) delete(m, [0, 2], 1) diag(f)
diag(s, 1) diag_indices(3) diag_indices_from(s) diagflat(f, 1) diagonal(s) diff(f) diff(m, 1, 0) digitize(f, g[:1])
divide(f, g) divide(g, 0.0) divmod(f, 2.0) divmod(k, 3) dot(f, g) dot(m, n) dot(s, f[:3])
dot(c, n[:, :1].repeat(4, 1).T) dsplit(c, 2) dstack([m, m]) dstack([f, g]) ediff1d(f) einsum("ij,jk", m, n)
equal(f, g) equal(i, 1) exp(f) exp2(f) expand_dims(m, 1) expand_dims(f, [0, 2]) expm1(f) extract(f > 0, g) eye(3)
eye(2, 4, 1) fabs(f) fix(f) flatnonzero(i) flip(m) flip(m, 1) fliplr(m) flipud(m) float_power(g, 2.5) floor(f)
floor_divide(f, 2.0) floor_divide(k, 3) fmax(f, x) fmin(f, x) fmod(f, 2.0) fmod(k, 3) frexp(f)
fromiter(range(4), "int32") full([2, 2], 1.5) full([2], 7) full_like(m, 3) gcd(i, k) geomspace(1.0, 8.0, 4)
gradient(f) gradient(m, 0.5, axis=1) greater(f, 0.25) greater_equal(i, k) heaviside(f, 0.5) histogram(f)
histogram(f, 4, (0, 2)) histogram2d(f, g, 3) histogram_bin_edges(f) histogramdd(n, 2) hsplit(m, 3) hstack([f, g])
hstack([m, m]) hypot(f, g) i0(f) identity(3) indices([2, 3]) inner(f, g) inner(m, m) insert(f, 1, 9.0)
insert(m, 1, g[:2], 1) interp(g, f[::2] * 0 + [0.0, 1.0, 2.0], g[:3]) invert(i) isclose(f, f + 1e-9) isfinite(x)
isin(i, k) isinf(x) isnan(x) ix_([0, 1], [1, 2]) kron(m, n) lcm(i, k) ldexp(f, i) left_shift(i, 2) less(f, g)
less_equal(i, k) lexsort([i, k]) linspace(0, 1, 5) linspace(0, 1, 5, False) linspace(0, 1, 5, retstep=True) log(g)
log10(g) log1p(g) log2(g) logaddexp(f, g) logaddexp2(f, g) logical_and(i, f) logical_not(i) logical_or(i, f)
logical_xor(i, f) logspace(0, 2, 4) logspace(0, 2, 4, base=2.0) mask_indices(3, np.triu) mat(m) matmul(m, n)
matmul(c, c.swapaxes(1, 2)) matmul(f, g) matrix(m) max(m) max(m, 0) max(i) maximum(f, g) maximum(x, 0) mean(f)
mean(m, 1) mean(i) mean(c, (0, 2)) median(f) median(m, 0) meshgrid(f, g) min(m) min(m, 1, None, True) minimum(f, 0.0)
mod(f, 2.0) mod(k, 3) modf(f) moveaxis(c, 0, 2) msort(m) multiply(f, g) multiply(u, u) nan_to_num(x) nanargmax(x[:2])
nanargmin(x[:2]) nancumprod(x[:2]) nancumsum(x[:2]) nanmax(x) nanmean(x[[0, 1, 3]]) nanmedian(x[[0, 1, 3]]) nanmin(x)
nanpercentile(x[[0, 1, 3]], 30) nanprod(x[:2]) nanquantile(x[[0, 1, 3]], 0.5) nanstd(x[[0, 1, 3]])
nansum(x[[0, 1, 3]]) nanvar(x[[0, 1, 3]]) negative(f) negative(u) nextafter(f, g) nonzero(i) nonzero(m)
not_equal(f, g) ones_like(m) outer(f, g) packbits(u) pad(f, 2) pad(m, ((1, 2), (0, 1)), "edge") partition(f, 2)
percentile(f, 30) percentile(m, [10, 90], 1) positive(f) power(g, f) power(f, 2) power(i, 2) prod(f) prod(m, 0)
prod(i) ptp(f) ptp(m, 0) quantile(f, 0.3) quantile(f, 0.5, None, None, False, "lower") rad2deg(f) radians(f) ravel(m)
ravel_multi_index([i[:2], i[2:4]], [4, 5]) real_if_close(f) reciprocal(g) remainder(f, 2.0) repeat(f, 2)
repeat(m, [1, 2], 0) repmat(m, 2, 1) require(f) reshape(m, [3, 2]) reshape(m, -1) resize(f, [2, 4]) right_shift(k, 1)
rint(f) roll(f, 2) roll(m, 1, 0) rollaxis(c, 2) rot90(m) round(f) round(f, 1) round_(f) row_stack([f, g])
searchsorted([0.0, 1.0, 2.0], f) select([f > 0, f < 0], [f, g]) sign(f) sign(k) signbit(f) sin(f) sinc(f) sinh(f)
sort(f) sort(m, 0) sort_complex(f) spacing(f) split(f, 5) split(m, [1], 1) sqrt(g) sqrt(i) square(f) square(i)
squeeze(m[None]) squeeze(m[None, :, None], 0) stack([f, g]) stack([m, m], 2) std(f) std(m, 0) std(f, ddof=1)
subtract(f, g) subtract(1.0, f) sum(f) sum(m, 0) sum(i) sum(u) sum(w) sum(c, (0, 1)) sum(m, keepdims=True)
swapaxes(c, 0, 2) take(f, [0, 2]) take(m, [1], 1) take_along_axis(m, j % 2, 0) tan(f) tanh(f) tensordot(m, n, 1)
tensordot(c, c, 3) tile(f, 2) tile(m, (2, 1)) trace(s) transpose(m) transpose(c, [1, 0, 2]) trapz(f) trapz(f, dx=0.5)
tri(3) tri(2, 4, 1) tril(s) tril(s, -1) tril_indices(3) tril_indices_from(s) trim_zeros(i[::-1]) triu(s, 1)
triu_indices(3) triu_indices_from(s) true_divide(f, g) trunc(f) unique(i) unique(i, return_counts=True) unpackbits(u)
unravel_index(i, [2, 3]) unwrap(f * 4) vander(f, 3) var(f) var(m, 1) var(d) vdot(f, g) vsplit(m, 2) vstack([f, g])
vstack([m, m]) where(f > 0, f, g) where(i > 1) where(i, f, 0.0) zeros_like(m) linalg.norm(f) linalg.norm(m)
linalg.norm(m, 1, 0) linalg.solve(s, f[:3]) linalg.svd(s, True, False) linalg.inv(s) linalg.det(s)
fromfunction(lambda a, b: a + b, [2, 3]) list(ndenumerate(j)) list(ndindex(2, 2)) frombuffer(b"abcdefgh", "uint8")
fromstring("1 2 3", sep=" ") asscalar(f[:1]) shape(m) list(flatiter(m)) list(nditer(m)) broadcast(f, m[:, :1])
full_like(i, 2.5) zeros([2, 3], "int32") ones([2], "uint8") zeros(3, "float64") ones((1, 2), "float32")
"""
"""Each gives what numpy gives, in Var's types."""


def calls(text: str) -> list[str]:
    """The calls in a text: they end where a parenthesis closes and nothing is open."""
    out, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter.isspace() and depth == 0:
            if word := text[start:at].strip():
                out.append(word)
            start = at
    return out


def names_in(case: str) -> set[str]:
    """The names that a case calls."""
    return set(re.findall(r"(?:linalg\.|random\.)?\b[a-zA-Z_]\w*(?=\()", case))
