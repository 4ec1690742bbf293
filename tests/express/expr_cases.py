"""Calls of `minnow.expr`, each with what numpy or PyTorch gives for it.

a, b: float vectors, b above 0; m, n: float matrices; i, k: ints; u: uint8; x: an image [2, 4, 5, 6], as NCHW; d, v, w:
weights. On the right side `np` is numpy, `nn` torch.nn.functional for numpy arrays, `sp` torch.special.
"""

from __future__ import annotations

import numpy as np

_rng = np.random.default_rng(7)

ARRAYS = {
    "a": np.array([0.5, -1.25, 3.0, -2.5, 1.5], np.float32),
    "b": np.array([0.25, 1.75, 0.5, 3.0, 2.0], np.float32),
    "m": np.array([[1, 2, 3], [4, -5, 6.5]], np.float32),
    "n": np.array([[2.0, -1.0], [0.5, 4.0], [1.0, 3.0]], np.float32),
    "i": np.array([3, 1, 2, 1, 0], np.int32),
    "k": np.array([7, -3, 5, 2, 4], np.int32),
    "u": np.array([200, 100, 7, 0, 255], np.uint8),
    "x": _rng.normal(size=(2, 4, 5, 6)).astype(np.float32),
    "v": _rng.normal(size=(6, 4, 3, 3)).astype(np.float32),
    "w": _rng.normal(size=(4, 6, 3, 3)).astype(np.float32),
    "d": _rng.normal(size=(4, 1, 3, 3)).astype(np.float32),
    "s": np.array([0.5, 0.25, 0.125, 1], np.float32),
    "bias": _rng.normal(size=6).astype(np.float32),
    "boxes": np.array([[0, 0, 4, 4], [0, 0, 4, 4.5], [2, 2, 6, 6], [7, 7, 9, 9]], np.float32),
    "scores": np.array([0.5, 0.9, 0.8, 0.3], np.float32),
    "rois": np.array([[0, 0, 0, 3, 3], [1, 1, 0, 5, 4]], np.float32),
}

CASES = """
abs(a) = np.abs(a)
abs(k) = np.abs(k)
acos(a / 4) = np.arccos(a / 4)
acosh(b + 1) = np.arccosh(b + 1)
add(a, 1.5) = a + 1.5
argmax(m) = np.argmax(m, 0)
argmin(m, 1) = np.argmin(m, 1)
asin(a / 4) = np.arcsin(a / 4)
asinh(a) = np.arcsinh(a)
atan(a) = np.arctan(a)
atan2(a, b) = np.arctan2(a, b)
atanh(a / 4) = np.arctanh(a / 4)
avg_pool(x, [2, 3], [2, 1]) = nn.avg_pool2d(x, (3, 2), (1, 2))
avg_pool(x, [3, 3], [1, 1], F.CAFFE, [1, 1]) = nn.avg_pool2d(x, 3, 1, 1)
avg_pool(x, [-1, -1], [1, 1]) = x.mean((2, 3), keepdims=True)
batch_to_space_nd(space_to_batch_nd(x[:, :, :4], [2, 3], [[1, 1], [0, 0]]), [2, 3], [[1, 1], [0, 0]]) = x[:, :, :4]
space_to_batch_nd(x[:, :, :4], [2, 1], [[0, 0], [0, 0]]) = np.concatenate([x[:, :, 0:4:2], x[:, :, 1:4:2]])
bias_add(m, [1.0, 2.0, 3.0]) = m + np.array([1.0, 2.0, 3.0])
bias_add(x, b[:4]) = x + b[:4].reshape(1, 4, 1, 1)
bitwise_and(i, k) = i & k
bitwise_or(i, 4) = i | 4
bitwise_xor(i, k) = i ^ k
broadcast_to(a, [2, 5]) = np.broadcast_to(a, (2, 5))
cast(a, F.int) = np.trunc(a).astype(int)
cast(i) = i.astype(float)
ceil(a) = np.ceil(a)
channel_shuffle(x, 2) = nn.channel_shuffle(x, 2)
clone(m) = m
clone(m, True) = m
concat([m, m], 1) = np.concatenate([m, m], 1)
concat([a, i], 0) = np.concatenate([a, i.astype(np.float32)])
conv2d(x, v, bias) = nn.conv2d(x, v, bias)
conv2d(x, v, bias, (2, 1), (1, 0), (1, 2), 1, F.CAFFE) = nn.conv2d(x, v, bias, (1, 2), (0, 1), (2, 1))
conv2d(x, d, None, (1, 1), (1, 1), (1, 1), 4, F.SAME) = nn.conv2d(x, d, None, 1, 1, 1, 4)
conv2d(convert(x, F.NHWC), v, bias) = nn.conv2d(x, v, bias)
conv2d_transpose(x, w, bias) = nn.conv_transpose2d(x, w, bias)
conv2d_transpose(x, w, bias, (2, 1), (1, 0)) = nn.conv_transpose2d(x, w, bias, (1, 2), (0, 1))
conv2d_transpose(x, w, bias, (2, 2), (0, 0), (1, 1), 1, F.SAME) = nn.conv_transpose2d(x, w, bias, 2)[:, :, :-1, :-1]
convert(x, F.NHWC) = x.transpose(0, 2, 3, 1)
convert(convert(x, F.NHWC), F.NC4HW4) = x
cos(a) = np.cos(a)
cosh(a) = np.cosh(a)
crop(x, x[:1, :, :2, :3], 2, [1, 2]) = x[:, :, 1:3, 2:5]
crop_and_resize(x, [[0.0, 0.0, 1.0, 1.0]], [1], [5, 6]) = x[1:]
crop_and_resize(x, [[0.0, 0.0, 2.0, 1.0]], [0], [3, 6], F.BILINEAR, 7.0)[:, :, 2] = np.full((1, 4, 6), 7.0)
cumprod(m, 1) = np.cumprod(m, 1)
cumsum(m) = np.cumsum(m, 0)
cumsum(i) = np.cumsum(i)
depth_to_space(x, 2) = x.reshape(2, 2, 2, 1, 5, 6).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 10, 12)
space_to_depth(depth_to_space(x, 2), 2) = x
dequant(quant(a, 0.25), 0.25) = a
quant(a, 0.02, -100, 100) = np.clip(np.sign(a) * np.floor(np.abs(a / np.float32(0.02)) + 0.5), -100, 100)
dequant(quant(x, s, zero=3), s, 3) = np.sign(x) * np.floor(np.abs(x) / S + 0.5) * S
divide(a, b) = a / b
divide(k, 2) = np.trunc(k / 2).astype(int)
eltwise_max(a, b) = np.maximum(a, b)
eltwise_prod(a, b, []) = a * b
eltwise_sub(a, b, [2.0, 3.0]) = 2 * a - 3 * b
eltwise_sum(a, b) = a + b
elu(a, 1.5) = nn.elu(a, 1.5)
equal(i, k) = i == k
erf(a) = sp.erf(a)
erfc(a) = sp.erfc(a)
erfinv(a / 4) = sp.erfinv(a / 4)
exp(a) = np.exp(a)
expand_dims(m, 1) = m[:, None]
expm1(a) = np.expm1(a)
fill([2, 3], 1.5) = np.full((2, 3), 1.5)
floor(a) = np.floor(a)
floordiv(k, 2) = k // 2
floormod(k, 3) = k % 3
gather(m, [1, 0, 1]) = m[[1, 0, 1]]
gather_nd(m, [[1, 2], [0, 0]]) = m[[1, 0], [2, 0]]
gelu(a) = nn.gelu(a, approximate="tanh")
greater(a, b) = a > b
greater_equal(i, k) = i >= k
histogram(a, 4, -3, 3) = np.histogram(a, 4, (-3, 3))[0].astype(float)
less(a, b) = a < b
less_equal(i, 1) = i <= 1
log(b) = np.log(b)
log1p(b) = np.log1p(b)
logical_or(i, 0) = i != 0
matmul(m, n) = m @ n
matmul(m, m, True) = m.T @ m
matmul(m, m, False, True) = m @ m.T
matrix_band_part(m, 0, 1) = np.tril(np.triu(m), 1)
matrix_band_part(m, -1, 0) = np.tril(m)
max_pool(x, [2, 3], [2, 1]) = nn.max_pool2d(x, (3, 2), (1, 2))
max_pool(x, [2, 2], [2, 2], F.CAFFE) = nn.max_pool2d(x, 2, 2, ceil_mode=True)
max_pool(x, [2, 2], [3, 4], F.CAFFE) = nn.max_pool2d(x, 2, (4, 3), ceil_mode=True)
max_pool(x, [-1, -1], [1, 1]) = x.max((2, 3), keepdims=True)
max_pool(x, [3, 3], [2, 2], F.SAME) = nn.max_pool2d(np.pad(x, P, constant_values=-9), 3, 2)
maximum(a, b) = np.maximum(a, b)
minimum(a, 0.0) = np.minimum(a, 0)
mod(k, 3) = np.fmod(k, 3)
moments(x) = [x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)]
moments(x, [1], None, False) = [x.mean(1), x.var(1)]
multiply(u, u) = u * u
negative(a) = -a
nms(boxes, scores, 3, 0.5) = np.array([1, 2, 3])
nms(boxes, scores, 9, 0.05, 0.4) = np.array([1])
normalize(x, 0, 0, 1e-6, [1.0, 2.0, 3.0, 4.0]) = x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-6) * C
normalize(x, 1, 1, 1e-6, [2.0]) = x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True) + 1e-6) * 2
not_equal(i, k) = i != k
one_hot(i, 3) = (i[:, None] == np.arange(3)).astype(float)
one_hot([0, -1], 2, 5.0, 1.0, 0) = np.array([[5.0, 1.0], [1.0, 1.0]])
pad(m, [[1, 0], [0, 2]]) = np.pad(m, ((1, 0), (0, 2)))
pad(m, [[1, 1], [2, 0]], F.REFLECT) = np.pad(m, ((1, 1), (2, 0)), "reflect")
pad(m, [[1, 1], [0, 2]], F.SYMMETRIC) = np.pad(m, ((1, 1), (0, 2)), "symmetric")
pow(b, a) = b**a
prelu(x, [0.1, 0.2, 0.3, 0.4]) = np.where(x > 0, x, x * C / 10)
prelu(x, 0.5) = np.where(x > 0, x, x / 2)
range(0, 5, 2) = np.arange(0, 5, 2)
range(1.0, 2.0, 0.25) = np.arange(1.0, 2.0, 0.25)
rank(x) = np.array(4)
raster([m], [0, 6, 1, 3, 0, 6, 2, 1, 1, 3, 2], [3, 2]) = m.T
reciprocal(b) = 1 / b
reduce_all(i) = np.all(i)
reduce_any(i, [0]) = np.any(i)
reduce_max(m, [1]) = m.max(1)
reduce_mean(m, [0], True) = m.mean(0, keepdims=True)
reduce_mean(i) = i.mean()
reduce_min(m) = m.min()
reduce_prod(m, 1) = m.prod(1)
reduce_sum(m, [0, 1]) = m.sum()
reduce_sum(i) = i.sum()
relu(a) = np.maximum(a, 0)
relu(a, 0.25) = nn.leaky_relu(a, 0.25)
relu6(a * 4) = np.clip(a * 4, 0, 6)
relu6(a, -1.0, 1.0) = np.clip(a, -1, 1)
reshape(m, [3, -1]) = m.reshape(3, 2)
reshape(x, [0, -1]) = x.reshape(2, -1)
resize(x, 2.0, 1.0)[:, :, :, ::2] = x
reverse(m, [1]) = m[:, ::-1]
reverse(a, 0) = a[::-1]
reverse_sequence(m, [1, 3], 0, 1) = np.array([m[0], m[1][::-1]])
roi_align(x, rois, 2, 3, 0.5, 2, True, F.AVEPOOL) = tv.roi_align(x, rois, (2, 3), 0.5, 2, True)
roi_align(x, rois, 2, 2, 1.0, 1, False, F.AVEPOOL) = tv.roi_align(x, rois, (2, 2), 1.0, 1, False)
roi_pooling(x, rois, 2, 2, 1.0) = tv.roi_pool(x, rois, (2, 2), 1.0)
round(a * 2.0) = np.sign(a) * np.floor(np.abs(a * 2) + 0.5)
rsqrt(b) = 1 / np.sqrt(b)
scalar(3) = np.array(3)
scalar(2.5) = np.array(2.5)
scale(x, 4, [1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 2.0]) = x * C + np.array([0, 1, 0, 2.0]).reshape(1, 4, 1, 1)
scatter_nd([[1], [3], [1]], a[:3], [4]) = np.array([0, 3.5, 0, -1.25])
select(i, a, b) = np.where(i, a, b)
select(greater(a, 0), a, 0.0) = np.where(a > 0, a, 0)
selu(a, 1.05, 1.67) = 1.05 * nn.elu(a, 1.67)
setdiff1d(i, [1]) = np.array([3, 2, 0])
shape(x) = np.array(x.shape)
sigmoid(a) = 1 / (1 + np.exp(-a))
sign(k) = np.sign(k)
sin(a) = np.sin(a)
sinh(a) = np.sinh(a)
size(x) = np.array(x.size)
slice(m, [0, 1], [2, -1]) = m[:, 1:]
softmax(m) = nn.softmax(m, -1)
softmax(m, 0) = nn.softmax(m, 0)
softplus(a) = np.log1p(np.exp(a))
softsign(a) = a / (1 + np.abs(a))
sort(m, 0) = np.sort(m, 0)
sort(i, -1, True) = np.argsort(i, kind="stable")
sort(a, 0, False, True) = np.sort(a)[::-1]
split(m, [1, 2], 1) = [m[:, :1], m[:, 1:]]
split(m, 2, 0) = [m[:1], m[1:]]
sqrt(b) = np.sqrt(b)
square(a) = a * a
squared_difference(a, b) = (a - b) ** 2
squeeze(m[None], [0]) = m
squeeze(m[None, :, None]) = m
stack([a, b], 1) = np.stack([a, b], 1)
strided_slice(m, [0, 2], [2, 0], [1, -1]) = m[0:2, 2:0:-1]
strided_slice(m, [1, 0], [2, 2], [1, 1], 0, 2, 0, 0, 1) = m[1, 0:]
strided_slice(m, [0, 0], [0, 2], [1, 1], 0, 0, 1, 0, 0) = m[..., 0:2]
subtract(1.0, a) = 1 - a
svd(n)[0] = np.linalg.svd(n)[1]
tan(a) = np.tan(a)
tanh(a) = np.tanh(a)
tile(m, [2, 1]) = np.tile(m, (2, 1))
transpose(x, [0, 2, 3, 1]) = x.transpose(0, 2, 3, 1)
unravel_index(i, [2, 3]) = np.array(np.unravel_index(i, (2, 3)))
unsqueeze(m, [0, 3]) = m[None, :, :, None]
unstack(m, 1) = [m[:, 0], m[:, 1], m[:, 2]]
where(a) = np.argwhere(a > 0)
zeros_like(k) = np.zeros_like(k)
const(a, [5]) = a
"""
