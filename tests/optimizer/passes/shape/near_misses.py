"""What comes close to what is known of dimensions and places, and must stay as it is."""

from __future__ import annotations

import re


def _graph(*lines: str, params: str, result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_COUNT = ("%e: i64[2] = Shape(%x)", "%s: i64[] = Gather(%e, i64[](1))",
          "%j: i64[S] = Range(i64[](0), %s, i64[](1))")  # fmt: skip


def _placed(*lines: str, x: str = "f32[N,S]", more: str = "") -> str:
    """Lines that read the places %j along the last axis of %x."""
    return _graph(*_COUNT, *lines, params=f"%x: {x}{more}", result="%y, %j")


def _rows(*lines: str, mask: str = "Less(%j, %i)", softmax: str = "Softmax(%m)", low: str = "-inf", k: str = "-1",
          inner: str = "MatMul(%x, %x) {transpose_b=True}") -> str:  # fmt: skip
    """The softmax of masked rows, and zeros where all is masked."""
    return _graph("%e: i64[3] = Shape(%x)", "%s: i64[] = Gather(%e, i64[](1))",
                  "%j: i64[S] = Range(i64[](0), %s, i64[](1))", "%i: i64[S,1] = Unsqueeze(%j) {axes=(1,)}",
                  f"%t: bool[S,S] = {mask}", f"%a: f32[N,S,S] = {inner}", *lines,
                  "%m: f32[N,S,S] = Where(%t, %a, f32[](-inf))", f"%p: f32[N,S,S] = {softmax}",
                  f"%r: f32[N,?,?] = ReduceMax(%m) {{axes=({k},)}}", f"%q: bool[N,?,?] = Equal(%r, f32[]({low}))",
                  "%y: f32[N,S,S] = Where(%q, f32[](0.0), %p)", params="%x: f32[N,S,4], %u: f32[N,S,S]")  # fmt: skip


def _branches(axis: int = -1, number: int = 1, after: str = "%y: f32[*] = Unsqueeze(%a) {axes=(0,)}",
              other: str = "return %x") -> str:  # fmt: skip
    """An axis that is squeezed where it is 1."""
    return _graph("%s: i64[1] = Shape(%x) {start=2, end=3}", f"%c: bool[1] = Equal(%s, i64[1]({number}))",
                  "%a: f32[*] = If(%c, %x) {then_branch=graph t(%x: f32[N,4,S]) {"
                  f" %b: f32[*] = Squeeze(%x) {{axes=({axis},)}} return %b }},"
                  f" else_branch=graph e(%x: f32[N,4,S]) {{ {other} }}}}", after,
                  params="%x: f32[N,4,S], %w: f32[1,1,4], %r: f32[1,1,1]")  # fmt: skip


_LAYER = "%d: f32[*] = Unsqueeze(%a) {axes=(0,)} %y: f32[*], %h: f32[*] = RNN(%d, %w, %r) {hidden=1}"

CASES: dict[str, list[tuple[str, str]]] = {
    "name_dimensions": [
        ("", _graph("%y: f32[N,S] = Exp(%x)", params="%x: f32[N,S]")),
        # What a loop makes may be of another length in each round.
        ("", _graph('%y: f32[?] = Loop(i64[](3), _, %x) {body=graph "b"(%t: i64[], %go: bool[], %s: f32[?]) {'
                    "%z: f32[?] = Concat(%s, %s) {axis=0} return %go, %z }, num_carried=1}", params="%x: f32[N]")),
    ],
    "decide_branches": [
        # Both can be.
        ("", _branches()),
        # The branch does not say what its condition asks.
        ("", _branches(axis=0, after=_LAYER)),
        ("", _branches(number=2, after=_LAYER)),
        # The other branch can be run, too.
        ("", _branches(after=_LAYER, other="%b: f32[*] = ReduceMax(%x) {axes=(2,), keepdims=False} return %b")),
    ],
    "fold_decided_operand": [
        ("no operand is known", _placed("%c: bool[S] = Greater(%j, i64[](0))", "%y: bool[S] = And(%c, %b)",
                                        more=", %b: bool[S]")),
        # Without the operand the result would have fewer elements.
        ("decides some dimension", _placed("%c: bool[S] = GreaterOrEqual(%j, i64[](0))", "%y: bool[S] = And(%c, %b)",
                                        more=", %b: bool[1]")),
        ("no operand is known", _placed("%c: bool[S] = GreaterOrEqual(%j, %k)", "%y: bool[S] = And(%c, %b)",
                                        more=", %b: bool[S], %k: i64[]")),
        ("no operand is known", _placed("%d: i64[S] = Mul(%j, i64[](-1))", "%c: bool[S] = Less(%d, i64[](0))",
                                        "%y: bool[S] = And(%c, %b)", more=", %b: bool[S]")),
    ],
    "eliminate_gather_of_all": [
        ("every element once", _placed("%y: f32[N,S] = Gather(%z, %j) {axis=1}", more=", %z: f32[N,H]")),
        ("every element once", _placed("%k: i64[S] = Sub(%j, i64[](1))", "%y: f32[N,S] = Gather(%x, %k) {axis=1}")),
        ("every element once", _placed("%y: f32[N,S] = Gather(%x, %k) {axis=1}", more=", %k: i64[S]")),
        ("every element once", _placed("%k: i64[S,S] = Expand(%j, %w)", "%y: f32[N,S,S] = Gather(%x, %k) {axis=1}",
                                       more=", %w: i64[2]")),
        ("every element once", _placed("%k: i64[S] = Mul(%j, i64[](2))", "%y: f32[N,S] = Gather(%x, %k) {axis=1}")),
        # The diagonal.
        ("every element once", _placed("%a: i64[S,1] = Unsqueeze(%j) {axes=(1,)}",
                                       "%b: i64[S,2] = Concat(%a, %a) {axis=1}", "%y: f32[S] = GatherND(%z, %b)",
                                       more=", %z: f32[S,S]")),
        # All rows and columns, but the axis of one element stands in front now: a view can keep the place of one
        # dimension that is not known, and of no two.
        ("no single view", _placed("%n: i64[] = Gather(%e, i64[](0))", "%i: i64[N] = Range(i64[](0), %n, i64[](1))",
                                   "%w: i64[4] = Concat(i64[1](1), %f, i64[1](1)) {axis=0}",
                                   "%0: i64[N,1,1] = Unsqueeze(%i) {axes=(1, 2)}",
                                   "%1: i64[S,1] = Unsqueeze(%j) {axes=(1,)}",
                                   "%a: i64[1,N,S,1] = Expand(%0, %w)", "%b: i64[1,N,S,1] = Expand(%1, %w)",
                                   "%z: i64[1,N,S,1] = Expand(i64[](0), %w)",
                                   "%c: i64[1,N,S,3] = Concat(%a, %b, %z) {axis=3}",
                                   "%y: f32[1,N,S] = GatherND(%x, %c)", x="f32[N,S,1]").replace(
            "i64[2] = Shape(%x)", "i64[3] = Shape(%x) %f: i64[2] = Shape(%x) {end=2}")),
        ("before the model runs", _placed("%y: f32[S] = Gather(f32[3](1.0, 2.0, 3.0), %j)")),
    ],
    "eliminate_guard_of_masked_rows": [
        ("may be masked", _rows()),
        ("may be masked", _rows(mask="Greater(%j, %i)")),
        ("may be masked", _rows("%b: f32[N,S,S] = Add(%a, %u)").replace("Where(%t, %a", "Where(%t, %b")),
        ("may be masked", _rows(mask="Equal(%i, i64[](0))")),
        # Of each row both masks leave something, but not the same: nobody compares them.
        ("one mask may hide", _rows(mask="LessOrEqual(%j, %i)", inner="Where(%t, %0, f32[](-inf))").replace(
            "%a: f32", "%0: f32[N,S,S] = MatMul(%x, %x) {transpose_b=True} %a: f32")),
        ("last axis", _rows(softmax="Softmax(%m) {axis=1}", mask="LessOrEqual(%j, %i)")),
        ("last axis", _rows(k="1", mask="LessOrEqual(%j, %i)")),
        ("another number", _rows(low="-1.0", mask="LessOrEqual(%j, %i)")),
        # Scores that are infinite by themselves: by a factor, a divisor, weights, or a mask that is added to them.
        ("infinite by themselves", _rows("%b: f32[N,S,S] = Mul(%a, f32[](-inf))", mask="LessOrEqual(%j, %i)").replace(
            "Where(%t, %a", "Where(%t, %b")),
        ("infinite by themselves", _rows("%b: f32[N,S,S] = Div(%a, f32[](0.0))", mask="LessOrEqual(%j, %i)").replace(
            "Where(%t, %a", "Where(%t, %b")),
        ("infinite by themselves", _rows(mask="LessOrEqual(%j, %i)", inner="Linear(%x, %v, _, %u)").replace(
            "%x: f32", "%v: f32[S,4], %x: f32")),
        ("infinite by themselves", re.sub(r"\bS\b", "1", _rows(
            mask="LessOrEqual(%j, %i)", inner="MatMul(%x, f32[4,1](-inf, 0.0, 0.0, 0.0))"))),
    ],
    "eliminate_repetition": [
        ("", _graph("%y: f32[N,S] = Expand(%x, %s)", params="%x: f32[1,S], %s: i64[2]")),
        ("", _graph("%a: f32[N,S] = Expand(%x, %s)", "%y: f32[N,S] = Add(%a, %z)",
                    params="%x: f32[1,S], %z: f32[1,S], %s: i64[2]")),
        ("", _graph("%a: f32[N,S] = Expand(%x, %s)", "%b: f32[N,S] = Softmax(%a) {axis=0}",
                    "%y: f32[N,S] = Add(%b, %z)", params="%x: f32[1,S], %z: f32[N,S], %s: i64[2]")),
        ("", _graph("%a: f32[N,S] = Expand(%x, %s)", "%b: f32[1,S] = ReduceSum(%a) {axes=(0,)}",
                    "%y: f32[N,S] = Add(%b, %z)", params="%x: f32[1,S], %z: f32[N,S], %s: i64[2]")),
        ("", _graph("%a: bool[N,S] = And(%x, %z)", "%y: bool[N,S] = Or(%a, %w)",
                    params="%x: bool[1,S], %z: bool[N,1], %w: bool[N,S]")),
    ],
    "fold_vector_of_dimensions": [
        ("no vector", _graph("%a: i64[2] = Shape(%x)", "%b: i64[1,2] = Unsqueeze(%a) {axes=(0,)}",
                             "%y: i64[1,2] = Mul(%b, i64[](1))", params="%x: f32[N,S]")),
        ("nothing is known", _graph("%y: i64[2] = Mul(%x, i64[](2))", params="%x: i64[2]")),
        ("has its elements", _graph("%a: i64[2] = Shape(%x)", "%y: i64[2] = Mul(%a, i64[](2))", params="%x: f32[N,S]")),
        ("has its elements", _graph("%a: i64[1] = Shape(%x) {end=1}", "%b: i64[1] = Shape(%x) {start=1}",
                                    "%c: i64[2] = Concat(%a, %b) {axis=0}", "%d: i64[2] = Concat(%b, %a) {axis=0}",
                                    "%y: i64[2] = Add(%c, %d)", params="%x: f32[N,S]")),
    ],
    "fuse_part_of_shape": [
        ("beside each other", _graph("%a: i64[3] = Shape(%x)", "%y: i64[2] = Gather(%a, i64[2](1, 0))",
                                     params="%x: f32[N,S,3]")),
        ("beside each other", _graph("%a: i64[3] = Shape(%x)",
                                     "%y: i64[2] = Slice(%a, i64[1](0), i64[1](3), i64[1](0), i64[1](2))",
                                     params="%x: f32[N,S,3]")),
        ("which part", _graph("%a: i64[3] = Shape(%x)", "%y: i64[1] = Gather(%a, %i)",
                              params="%x: f32[N,S,3], %i: i64[1]")),
        ("not a vector", _graph("%a: i64[3] = Shape(%x)", "%y: i64[] = Gather(%a, i64[](1))",
                                params="%x: f32[N,S,3]")),
    ],
    "move_shape_to_input": [
        ("is an input", _graph("%y: i64[2] = Shape(%x)", params="%x: f32[N,S]")),
        ("a number", _graph("%a: f32[N,3] = Exp(%x)", "%y: i64[2] = Shape(%a)", params="%x: f32[N,3]")),
        ("beside each other", _graph("%a: f32[S,N] = Transpose(%x) {perm=(1, 0)}", "%y: i64[2] = Shape(%a)",
                                     params="%x: f32[N,S]")),
        ("beside each other", _graph("%a: f32[?] = Compress(%x, %c) {axis=0}", "%y: i64[1] = Shape(%a)",
                                     params="%x: f32[N], %c: bool[N]")),
    ],
}  # fmt: skip
