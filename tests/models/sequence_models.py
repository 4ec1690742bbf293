"""ONNX models with sequences and optionals, as text, and what to feed them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def at(n: int) -> Array:
    return np.array(n, np.int64)


# name -> (text of the graph, sets of inputs)
MODELS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "take": (
        "(seq(float[]) s, int64 i) => (float[] y, int64 n) { y = SequenceAt(s, i) n = SequenceLength(s) }",
        [{"s": [f32(2, 3), f32(5), f32(0, 4)], "i": at(i)} for i in (0, 1, 2, -1, -3)],
    ),
    "insert and erase": (
        """(seq(float[]) s, float[N] x, int64 i, int64 j) => (seq(float[]) a, seq(float[]) b, seq(float[]) c) {
          a = SequenceInsert(s, x, i) b = SequenceInsert(s, x) c = SequenceErase(a, j)
        }""",
        [{"s": [f32(n) for n in sizes], "x": f32(7), "i": at(i), "j": at(j)}
         for sizes, i, j in (((3, 0, 5), 0, 1), ((3, 4), 2, -1), ((2, 2, 2), -1, -4), ((1,), 1, 0))],
    ),
    "concatenate": (
        """(float[A, 3] x, float[B, 3] y, float[2, C] z) => (float[] p, float[] q, seq(float[]) s) {
          s = SequenceConstruct(x, y, x) p = ConcatFromSequence <axis = -2> (s)
          t = SequenceConstruct(z, z) q = ConcatFromSequence <axis = 1, new_axis = 1> (t)
        }""",
        [{"x": f32(a, 3), "y": f32(b, 3), "z": f32(2, c)} for a, b, c in ((2, 5, 3), (0, 1, 1), (4, 0, 0))],
    ),
    "split": (
        """(float[N, M] x, int64 i, int64[K] sizes) =>
           (seq(float[]) rows, float[] row, float[] part, seq(float[]) some) {
          rows = SplitToSequence <axis = 0, keepdims = 0> (x)
          row = SequenceAt(rows, i)
          two = Constant <value_int = 2> ()
          parts = SplitToSequence <axis = 1> (x, two)
          part = SequenceAt(parts, i)
          some = SplitToSequence <axis = 1> (x, sizes)
        }""",
        [{"x": f32(5, 7), "i": at(3), "sizes": i64(3, 0, 4)}, {"x": f32(1, 4), "i": at(0), "sizes": i64(4)},
         {"x": f32(3, 5), "i": at(-1), "sizes": i64(1, 1, 1, 2)}],
    ),
    "unbind": (
        """(float[4, N] x) => (float[] y, int64 n) {
          one = Constant <value_int = 1> () last = Constant <value_int = -1> () first = Constant <value_int = 0> ()
          s = SplitToSequence <axis = 0, keepdims = 0> (x, one)
          a = SequenceAt(s, last) b = SequenceAt(s, first) y = Sub(a, b) n = SequenceLength(s)
        }""",
        [{"x": f32(4, 6)}],
    ),
    "grow in a loop": (
        """(int64 n, float[K] x) => (seq(float[]) all, float[] flat) {
          empty = SequenceEmpty()
          yes = Constant <value = bool {1}> ()
          all = Loop(n, yes, empty) <body = b (int64 i, bool c, seq(float[]) before) => (bool c2, seq(float[]) after) {
            c2 = Identity(c) zero = Constant <value_ints = [0]> () axes = Constant <value_ints = [0]> ()
            one = Constant <value_int = 1> () end = Add(i, one) ends = Unsqueeze(end, axes)
            part = Slice(x, zero, ends) after = SequenceInsert(before, part)
          }>
          head = Slice(x, zeros, ones) more = SequenceInsert(all, head) flat = ConcatFromSequence <axis = 0> (more)
        }""",
        [{"n": at(n), "x": f32(6)} for n in (1, 5, 3, 0)],
    ),
    "shrink and rotate in a loop": (
        """(seq(float[]) s, int64 n) => (seq(float[]) left, float[] stacked) {
          yes = Constant <value = bool {1}> ()
          left, stacked = Loop(n, yes, s) <body = b (int64 i, bool c, seq(float[]) a) =>
                                                    (bool c2, seq(float[]) z, float[2] y) {
            c2 = Identity(c) zero = Constant <value_int = 0> ()
            y = SequenceAt(a, zero) b = SequenceErase(a, zero) twice = Add(y, y) z = SequenceInsert(b, twice)
          }>
        }""",
        [{"s": [f32(2) for _ in range(k)], "n": at(n)} for k, n in ((3, 4), (1, 2), (5, 1))],
    ),
    "a loop in a loop": (
        """(int64 n, seq(float[]) s) => (seq(float[]) out) {
          yes = Constant <value = bool {1}> ()
          out = Loop(n, yes, s) <body = o (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) z) {
            c2 = Identity(c) m = SequenceLength(a) go = Constant <value = bool {1}> () empty = SequenceEmpty()
            twice = Loop(m, go, empty) <body = p (int64 j, bool d, seq(float[]) w) => (bool d2, seq(float[]) v) {
              d2 = Identity(d) e = SequenceAt(a, j) f = Add(e, e) v = SequenceInsert(w, f)
            }>
            all = ConcatFromSequence <axis = 0> (twice) z = SequenceInsert(twice, all)
          }>
        }""",
        [{"n": at(n), "s": [f32(2), f32(1)]} for n in (3, 0, 1)],
    ),
    "as long as there are some": (
        """(seq(float[]) s) => (seq(float[]) left, float[] sums) {
          yes = Constant <value = bool {1}> () most = Constant <value_int = 100> ()
          left, sums = Loop(most, yes, s) <body = o (int64 i, bool c, seq(float[]) a) =>
                                                    (bool c2, seq(float[]) z, float[1] k) {
            zero = Constant <value_int = 0> () e = SequenceAt(a, zero) k = ReduceSum <keepdims = 1> (e)
            z = SequenceErase(a) n = SequenceLength(z) c2 = Greater(n, zero)
          }>
        }""",
        [{"s": [f32(2) for _ in range(n)]} for n in (3, 1)],
    ),
    "branches": (
        """(bool c, float[N] x, seq(float[]) s) => (seq(float[]) y, int64 n) {
          y = If(c) <then_branch = t () => (seq(float[]) a) { d = Add(x, x) a = SequenceConstruct(x, d) },
                     else_branch = e () => (seq(float[]) b) { b = SequenceInsert(s, x) }>
          n = SequenceLength(y)
        }""",
        [{"c": np.array(c), "x": f32(3), "s": [f32(2, 2)] * k} for c, k in ((True, 1), (False, 1), (False, 4))],
    ),
    "a condition in a loop captures a sequence": (
        """(seq(float[]) s, seq(float[]) t) => (seq(float[]) y) {
          n = SequenceLength(s) empty = SequenceEmpty() yes = Constant <value = bool {1}> ()
          y = Loop(n, yes, empty) <body = b (int64 i, bool c, seq(float[]) a) => (bool c2, seq(float[]) z) {
            c2 = Identity(c) two = Constant <value_int = 2> () zero = Constant <value_int = 0> ()
            rest = Mod(i, two) even = Equal(rest, zero)
            e = If(even) <then_branch = u () => (float[] p) { p = SequenceAt(s, i) },
                          else_branch = v () => (float[] q) { q = SequenceAt(t, i) }>
            z = SequenceInsert(a, e, zero)
          }>
        }""",
        [{"s": [f32(2), f32(3, 1), f32()], "t": [f32(0), f32(5), f32(1)]}],
    ),
    "map": (
        """(seq(float[N, 3]) s, float[3] w) => (seq(float[]) y, seq(float[]) z, float[] flat) {
          y, z = SequenceMap(s, w) <body = b (float[N, 3] e, float[3] v) => (float[N, 3] a, float[N] r) {
            a = Mul(e, v) axes = Constant <value_ints = [1]> () r = ReduceSum <keepdims = 0> (a, axes)
          }>
          flat = ConcatFromSequence <axis = 0> (y)
        }""",
        [{"s": [f32(n, 3) for n in sizes], "w": f32(3)} for sizes in ((2, 5, 0), (1,))],
    ),
    "map over two": (
        """(seq(float[]) s, seq(float[]) t) => (seq(float[]) y) {
          y = SequenceMap(s, t) <body = b (float[] e, float[] v) => (float[] a) { a = Add(e, v) }>
        }""",
        [{"s": [f32(2), f32(3, 3)], "t": [f32(1), f32(3)]}],
    ),
    "map of one shape": (
        """(seq(float[3]) s, float[3] w) => (seq(float[]) y, seq(float[]) z) {
          y, z = SequenceMap(s, w) <body = b (float[3] e, float[3] v) => (float[3] a, float[1] m) {
            a = Mul(e, v) axes = Constant <value_ints = [0]> () m = ReduceMax(a, axes)
          }>
        }""",
        [{"s": [f32(3) for _ in range(n)], "w": f32(3)} for n in (4, 1, 0)],
    ),
    "map over rows": (
        """(float[4, 3] x) => (float[] y) {
          s = SplitToSequence <axis = 0, keepdims = 0> (x)
          m = SequenceMap(s) <body = b (float[3] e) => (float[3] a) { a = Neg(e) }>
          y = ConcatFromSequence <axis = 0, new_axis = 1> (m)
        }""",
        [{"x": f32(4, 3)}],
    ),
    "types": (
        """(seq(int64[]) a, seq(bool[]) b, seq(float16[]) c, seq(double[]) d, seq(uint8[]) e, int64 i) =>
           (seq(int64[]) a2, seq(bool[]) b2, seq(float16[]) c2, seq(double[]) d2, seq(uint8[]) e2, int64[] x, bool[] y,
            float16[] z, double[] u, uint8[] v) {
          x = SequenceAt(a, i) y = SequenceAt(b, i) z = SequenceAt(c, i) u = SequenceAt(d, i) v = SequenceAt(e, i)
          a2 = SequenceInsert(a, x) b2 = SequenceInsert(b, y) c2 = SequenceInsert(c, z) d2 = SequenceInsert(d, u)
          e2 = SequenceInsert(e, v)
        }""",
        [{"a": [i64(1, -2), i64()], "b": [np.array([True, False]), np.array(True)],
          "c": [f32(3).astype(np.float16), f32(2, 1).astype(np.float16)], "d": [f32(2).astype(np.float64)] * 2,
          "e": [np.array([0, 255], np.uint8), np.array(7, np.uint8)], "i": at(i)} for i in (0, 1)],
    ),
    "narrowed and computed with": (
        """(seq(int64[]) a, seq(double[]) d, int64[N] x) => (int64[] y, double[] z, seq(int64[]) b) {
          y = ConcatFromSequence <axis = 0> (a) zero = Constant <value_int = 0> () p = SequenceAt(d, zero) z = Add(p, p)
          q = Add(x, x) b = SequenceInsert(a, q)
        }""",
        [{"a": [i64(1, 2), i64(-3)], "d": [f32(2).astype(np.float64)], "x": i64(5, 6, 7)}],
    ),
}  # fmt: skip
