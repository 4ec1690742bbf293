"""Graphs that come close to what rules of matrix products do; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[2,2]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_LINEAR = "%y: f32[2,1] = Linear(%a, f32[1,2](0.5, 1.0))"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_linear_bias": [
        # The features of weights that are computed are not known, nor how many numbers the bias would have.
        ("or the bias is computed", _chain("%a: f32[2,?] = Linear(%x, %w)", "%y: f32[2,?] = Add(%a, f32[](3.0))",
                                           params="%x: f32[2,3], %w: f32[?,?]")),
    ],
    "fuse_scale_linear": [
        ("per feature", _chain("%a: f32[2,2] = Mul(%x, f32[2,1](2.0, 3.0))", _LINEAR)),
        ("not constant", _chain("%a: f32[2,2] = Div(f32[2](2.0, 3.0), %x)", _LINEAR)),
        ("not finite", _chain("%a: f32[2,2] = Div(%x, f32[2](2.0, 0.0))", _LINEAR)),
        ("widens", _chain("%a: f32[2,2] = Mul(%x, f32[2](2.0, 3.0))", _LINEAR, params="%x: f32[2,1]")),
        # One number, but with an axis that the input does not have: the result has it, too.
        ("more axes", _chain("%a: f32[1,2,2] = Mul(%x, f32[1,1,1](2.0))",
                             "%y: f32[1,2,1] = Linear(%a, f32[1,2](0.5, 1.0))")),
        ("computed", _chain("%a: f32[2,2] = Mul(%x, f32[2](2.0, 3.0))", "%y: f32[2,1] = Linear(%a, %w)",
                            params="%x: f32[2,2], %w: f32[1,2]")),
    ],
    "fuse_linear_of_batch": [
        ("one matrix", _chain("%y: f32[2,2,1] = MatMul(%x, f32[2,2,1](1.0, 2.0, 3.0, 4.0))", params="%x: f32[2,2,2]")),
        ("one matrix", _chain("%y: f32[1,2,1] = MatMul(%x, f32[1,2,1](1.0, 2.0))")),
        ("transpose_a", _chain("%y: f32[3,2,1] = MatMul(%x, f32[1,2,1](1.0, 2.0)) {transpose_a=True}",
                               params="%x: f32[3,2,2]")),
    ],
}  # fmt: skip
