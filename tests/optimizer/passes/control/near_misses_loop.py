"""Graphs with loops that are to stay as they are; see test_negative.py."""

from __future__ import annotations


def _loop(*lines: str, trip: str = "i64[](3)", cond: str = "_", go: str = "%c", k: str = "f32[2]") -> str:
    """A loop that carries %a and captures %k; the last line makes %y, which goes around."""
    return (
        f"graph g(%x: f32[2], %z: {k}, %n: i64[], %t: bool[]) {{ %v: f32[2] = Loop({trip}, {cond}, %x, %z) "
        f"{{body=graph b(%i: i64[], %c: bool[], %a: f32[2], %k: {k}) {{ {' '.join(lines)} return {go}, %y }}, "
        f"num_carried=1}} return %v }}"
    )


_MUL = "%y: f32[2] = Mul(%a, %k)"
_STOP = "%s: f32[] = ReduceSum(%y) {axes=(0,), keepdims=False}"

CASES: dict[str, list[tuple[str, str]]] = {
    "prune_loop": [
        ("", _loop(_MUL)),
        # %b goes around for %a only, and is read by the condition only.
        ("", "graph g(%x: f32[2], %z: f32[2]) { %v: f32[2], %w: f32[2] = Loop(i64[](3), _, %x, %z) {body=graph b("
             "%i: i64[], %c: bool[], %a: f32[2], %b: f32[2]) { %e: f32[2] = Exp(%b) %f: f32[2] = Add(%a, %b) "
             "return %c, %f, %e }, num_carried=2} return %v }"),
        ("", "graph g(%x: f32[2], %z: f32[]) { %v: f32[2], %w: f32[] = Loop(i64[](3), _, %x, %z) {body=graph b("
             "%i: i64[], %c: bool[], %a: f32[2], %b: f32[]) { %e: f32[] = Exp(%b) %f: f32[2] = Exp(%a) "
             "%d: bool[] = Less(%b, f32[](2.0)) return %d, %f, %e }, num_carried=2} return %v }"),
        # Two that trade places are not what they were.
        ("", "graph g(%x: f32[2], %z: f32[2], %n: i64[]) { %v: f32[2], %w: f32[2] = Loop(%n, _, %x, %z) {body=graph b("
             "%i: i64[], %c: bool[], %a: f32[2], %b: f32[2]) { return %c, %b, %a }, num_carried=2} return %v }"),
    ],
    "unroll_loop": [
        ("", _loop(_MUL, trip="%n")),
        ("", _loop(_MUL, trip="i64[](9)")),
        ("", _loop(_MUL, cond="%t")),
        ("", _loop(_MUL, _STOP, "%d: bool[] = Less(%s, f32[](9.0))", go="%d")),
        ("", _loop("%e0: f32[2] = Exp(%a)", *(f"%e{i}: f32[2] = Exp(%e{i - 1})" for i in range(1, 21)),
                   "%y: f32[2] = Neg(%e20)")),
        ("", _loop("%r: f32[2] = RandomUniform(i64[1](2))", "%y: f32[2] = Mul(%a, %r)")),
        ("", _loop("%y: f32[2] = If(%c, %a) {then_branch=graph t(%p: f32[2]) { %q: f32[2] = Exp(%p) return %q }, "
                   "else_branch=graph e(%p: f32[2]) { return %p }}")),
        # Nothing is stacked, and of what, nobody knows.
        ("", "graph g(%x: f32[N]) { %s: f32[0,N] = Loop(i64[](0), _, %x) {body=graph b(%i: i64[], %c: bool[], "
             "%k: f32[N]) { %e: f32[N] = Exp(%k) return %c, %e }, num_carried=0} return %s }"),
    ],
    "hoist_invariants": [
        ("", _loop(_MUL, trip="%n")),
        ("", _loop("%e: f32[2] = Exp(%a)", "%y: f32[2] = Mul(%e, %k)")),
        ("", _loop("%e: f32[] = Cast(%i) {to=f32}", "%y: f32[2] = Mul(%e, %a)")),
        # There may be no round, or only some: what can fail would fail then.
        ("", _loop("%j: i64[1] = Div(i64[1](4), %k)", "%g: f32[1] = Gather(%a, %j)", "%y: f32[2] = Mul(%a, %g)",
                   trip="%n", k="i64[1]")),
        ("", _loop("%g: f32[1] = Gather(f32[2](1.0, 2.0), %k)", "%y: f32[2] = Mul(%a, %g)", trip="%n", k="i64[1]")),
        ("", _loop("%g: f32[1] = Gather(f32[2](1.0, 2.0), %k)", "%y: f32[2] = Mul(%a, %g)", cond="%t", k="i64[1]")),
        ("", _loop("%g: f32[2] = Reshape(%k, i64[1](2))", "%y: f32[2] = Mul(%a, %g)", trip="%n", k="f32[N]")),
        ("", _loop("%g: f32[?] = Add(%k, f32[3](1.0, 2.0, 3.0))", "%h: f32[] = ReduceSum(%g) {keepdims=False}",
                   "%y: f32[2] = Mul(%a, %h)", trip="%n", k="f32[N]")),
        # Much larger than what it is made of.
        ("", _loop("%g: f32[64,64] = Expand(%k, i64[2](64, 64))", "%p: f32[] = ReduceSum(%a) {keepdims=False}",
                   "%l: f32[64,64] = Mul(%g, %p)", "%h: f32[] = ReduceSum(%l) {keepdims=False}",
                   "%y: f32[2] = Mul(%a, %h)", k="f32[]")),
        ("", _loop("%p: f32[] = ReduceSum(%a) {keepdims=False}", "%g: f32[?] = Expand(f32[1](2.0), %k)",
                   "%l: f32[?] = Mul(%g, %p)", "%h: f32[] = ReduceSum(%l) {keepdims=False}",
                   "%y: f32[2] = Mul(%a, %h)", k="i64[1]")),
        ("", _loop("%r: f32[?] = RandomNormal(%k)", "%h: f32[] = ReduceSum(%r) {keepdims=False}",
                   "%y: f32[2] = Mul(%a, %h)", k="i64[1]")),
    ],
}  # fmt: skip
