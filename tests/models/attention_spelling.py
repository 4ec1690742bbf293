"""Attention in the spellings of exporters, and what comes close to it, as ONNX graphs."""

from __future__ import annotations

import numpy as np
from onnx_spelling import Case, Spelling


def of_one_projection(s: Spelling) -> str:
    qkv = s.Transpose(s.reshaped(s.input(2, 37, 3 * 3 * 20), 2, 37, 3, 3, 20), perm=[2, 0, 3, 1, 4])
    q, k, v = (s.Gather(qkv, s.constant(i, np.int64), axis=0) for i in range(3))
    return s.merged(s.attend(q, s.Transpose(k, perm=[0, 1, 3, 2]), v), 60)


def of_a_split_projection(s: Spelling) -> str:
    q, k, v = s.op("Split", s.input(1, 100, 3 * 64), outputs=3, axis=2)
    scaled = s.Div(s.heads(q, 2, 32), s.constant(5.0))
    return s.merged(s.attend(scaled, s.heads(k, 2, 32, (0, 2, 3, 1)), s.heads(v, 2, 32), 1.5), 64)


def of_a_sliced_projection(s: Spelling) -> str:
    x = s.input(1, 19, 3 * 48)
    cut = [s.Slice(x, *(s.constant([n], np.int64) for n in (begin, begin + 48, 2, 1))) for begin in (0, 48, -48 + 144)]
    q, k, v = (s.heads(part, 3, 16) for part in cut)
    return s.merged(s.attend(q, s.Transpose(k, perm=[0, 1, 3, 2]), v), 48)


def with_a_mask_of_keys(s: Spelling) -> str:
    q, k, v = (s.heads(s.input(2, 33, 24), 3, 8) for _ in range(3))
    mask = s.Mul(s.input(2, 1, 1, 33), s.constant(-3.0))
    scores = s.Add(s.Div(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), s.constant(2.0)), mask)
    return s.merged(s.MatMul(s.Softmax(scores, axis=3), v), 24)


def with_two_masks(s: Spelling) -> str:
    q, k, v = (s.input(2, 3, n, 17) for n in (21, 65, 65))
    scores = s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2]))
    masked = s.Add(s.input(2, 1, 21, 1), s.Add(scores, s.input(3, 21, 65)))
    return s.MatMul(s.Softmax(s.Mul(masked, s.constant(0.5)), axis=-1), v)


def with_a_condition(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 40, 16) for _ in range(3))
    scores = s.Mul(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), s.constant(0.25))
    masked = s.Where(s.constant(np.tri(40), np.bool_), scores, s.constant(-1e9))
    return s.MatMul(s.Softmax(masked, axis=-1), v)


def with_a_condition_to_leave_out(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 5, 16) for _ in range(3))
    scores = s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2]))
    out = s.Greater(s.input(1, 1, 1, 5), s.constant(0.4))
    return s.MatMul(s.Softmax(s.Where(out, s.constant(-np.inf), scores), axis=-1), v)


def across(s: Spelling) -> str:
    q, k, v = s.heads(s.input(1, 11, 96), 4, 24), s.input(1, 4, 24, 150), s.input(1, 4, 150, 40)
    return s.merged(s.attend(q, k, v), 160)


def of_grouped_queries(s: Spelling) -> str:
    q = s.input(1, 6, 9, 32)
    k, v = (
        s.reshaped(s.Expand(s.Unsqueeze(s.input(1, 2, 70, 32), s.constant([2], np.int64)), shape), 1, 6, 70, 32)
        for shape in (s.constant([1, 2, 3, 70, 32], np.int64),) * 2
    )
    return s.merged(s.attend(q, s.Transpose(k, perm=[0, 1, 3, 2]), v), 192)


def of_one_query_and_a_cache(s: Spelling) -> str:
    q = s.input(1, 6, 1, 20)
    k, v = (s.Concat(s.input(1, 2, 50, 20), s.input(1, 2, 1, 20), axis=2) for _ in range(2))
    shape = s.constant([1, 2, 3, 51, 20], np.int64)
    k, v = (s.reshaped(s.Expand(s.Unsqueeze(x, s.constant([2], np.int64)), shape), 1, 6, 51, 20) for x in (k, v))
    return s.merged(s.attend(q, s.Transpose(k, perm=[0, 1, 3, 2]), v), 120)


def of_merged_batch_and_heads(s: Spelling) -> str:
    q, k, v = (s.reshaped(s.heads(s.input(2, 30, 32), 4, 8), 8, 30, 8) for _ in range(3))
    y = s.attend(q, s.Transpose(k, perm=[0, 2, 1]), v)
    return s.merged(s.reshaped(y, 2, 4, 30, 8), 32)


def of_one_matrix(s: Spelling) -> str:
    q, k, v = s.input(70, 7), s.input(7, 301), s.input(301, 13)
    return s.attend(q, k, v)


def of_many_keys(s: Spelling) -> str:
    return s.attend(s.input(2, 15, 8), s.input(1, 8, 2500), s.input(2500, 8))


FUSED: tuple[Case, ...] = (
    of_one_projection,
    of_a_split_projection,
    of_a_sliced_projection,
    with_a_mask_of_keys,
    with_two_masks,
    with_a_condition,
    with_a_condition_to_leave_out,
    across,
    of_grouped_queries,
    of_one_query_and_a_cache,
    of_merged_batch_and_heads,
    of_one_matrix,
    of_many_keys,
)


def with_scores_that_are_read_twice(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 12, 16) for _ in range(3))
    weights = s.Softmax(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), axis=-1)
    return s.Add(s.MatMul(weights, v), s.ReduceMean(weights, axes=[-1], keepdims=1))


def over_queries(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 12, 16) for _ in range(3))
    return s.MatMul(s.Softmax(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), axis=2), v)


def with_a_scaled_condition(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 12, 16) for _ in range(3))
    scores = s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2]))
    masked = s.Where(s.constant(np.tri(12), np.bool_), scores, s.constant(-2.0))
    return s.MatMul(s.Softmax(s.Mul(masked, s.constant(0.5)), axis=-1), v)


def with_a_mask_that_is_not_scaled(s: Spelling) -> str:
    q, k, v = (s.input(1, 2, 12, 16) for _ in range(3))
    scores = s.Add(s.MatMul(q, s.Transpose(k, perm=[0, 1, 3, 2])), s.input(12, 12))
    masked = s.Add(s.Mul(scores, s.constant(0.5)), s.input(12, 12))
    return s.MatMul(s.Softmax(masked, axis=-1), v)


LEFT: tuple[Case, ...] = (
    with_scores_that_are_read_twice,
    over_queries,
    with_a_scaled_condition,
    with_a_mask_that_is_not_scaled,
)
