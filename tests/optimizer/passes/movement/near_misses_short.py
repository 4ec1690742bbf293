"""Short graphs that come close to movement that cancels, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain


def _dilated(strides: str = "(1, 1)", pads: str = "(0, 0, 0, 0)", block: str = "(2, 4, 0, 1, 3, 5)", w: int = 2,
             step: str = "Relu(%f)") -> str:  # fmt: skip
    """A convolution of two channels between blocks that are images of the batch."""
    return chain(
        "%a: f32[1,2,2,3,2,1] = Reshape(%x, i64[6](1, 2, 2, 3, 2, 1))",
        f"%b: f32[2,2,1,{'3,2' if '3, 1' in block else '2,3'},1] = Transpose(%a) {{perm={block}}}",
        "%c: f32[4,2,3,1] = Reshape(%b, i64[4](4, 2, 3, 1))",
        "%d: f32[4,1,2,3] = Transpose(%c) {perm=(0, 3, 1, 2)}",
        f"%e: f32[4,2,1,{w}] = Conv(%d, f32[2,1,2,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)) "
        f"{{strides={strides}, pads={pads}, dilations=(1, 1)}}",
        f"%f: f32[4,1,{w},2] = Transpose(%e) {{perm=(0, 2, 3, 1)}}",
        f"%g: f32[4,1,{w},2] = {step}",
        f"%h: f32[2,2,1,1,{w},2] = Reshape(%g, i64[6](2, 2, 1, 1, {w}, 2))",
        f"%i: f32[1,1,2,{w},2,2] = Transpose(%h) {{perm=(2, 3, 0, 4, 1, 5)}}",
        f"%y: f32[1,2,{2 * w},2] = Reshape(%i, i64[4](1, 2, {2 * w}, 2))",
        params="%x: f32[1,4,6,1]",
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_views": [("no single view", chain(
        "%a: f32[N,M] = Squeeze(%x) {axes=(2,)}", "%y: f32[1,N,M] = Unsqueeze(%a) {axes=(0,)}",
        params="%x: f32[N,M,1]")),
        ("not known", chain("%a: f32[*] = Squeeze(%x)", "%y: f32[*] = Unsqueeze(%a) {axes=(0,)}",
                             params="%x: f32[N,1]"))],
    "fuse_transposes": [("found %x", chain("%y: f32[2,2] = Transpose(%x) {perm=(1, 0)}", params="%x: f32[2,2]"))],
    "eliminate_transpose_of_ones": [("not of size 1", chain("%y: f32[1,3,2] = Transpose(%x) {perm=(0, 2, 1)}",
                                                               params="%x: f32[1,2,3]"))],
    "hoist_elementwise": [
        ("more than one element", chain("%a: f32[2,2] = Reshape(%x, i64[2](2, 2))",
                                         "%y: f32[2,2] = Mul(%a, f32[2](2.0, 3.0))")),
        ("more axes", chain("%a: f32[2,2] = Reshape(%x, i64[2](2, 2))", "%y: f32[1,2,2] = Mul(%a, f32[1,1,1](2.0))")),
    ],
    "eliminate_expand_before_broadcast": [
        ("with the expansion only", chain("%a: f32[3,4] = Expand(%x, i64[2](3, 4))", "%y: bool[3,4] = Less(%a, %z)",
                                           params="%x: f32[3,1], %z: f32[1,4]")),
        ("may decide", chain("%a: f32[3,4] = Expand(%x, i64[2](3, 4))", "%y: f32[3,4] = Add(%a, f32[](1.0))",
                                       params="%x: f32[1,4]")),
        ("may decide", chain("%a: f32[N,4] = Expand(%x, %s)", "%y: f32[N,4] = Add(%a, %z)",
                              params="%x: f32[1,4], %s: i64[2], %z: f32[?,4]")),
    ],
    "fuse_casts": [("every number", chain("%a: i32[4] = Cast(%x) {to=i32}", "%y: f32[4] = Cast(%a) {to=f32}"))],
    "fuse_concats": [
        ("no operand", chain("%a: f32[2,4] = Concat(%x, %x) {axis=1}", "%y: f32[4,4] = Concat(%a, %a) {axis=0}",
                              params="%x: f32[2,2]")),
        ("no operand", chain("%a: f32[8] = Concat(%x, %x) {axis=0}", "%y: f32[12] = Concat(%a, %x) {axis=0}",
                              result="%y, %a")),
    ],
    "fuse_dilation": [
        ("strides", _dilated(strides="(1, 2)", w=1)),
        ("padding", _dilated(pads="(0, 1, 0, 0)", w=3)),
        ("reads no blocks", _dilated(block="(2, 4, 0, 3, 1, 5)")),
        ("Softmax stands between", _dilated(step="Softmax(%f) {axis=1}")),
        ("Add stands between", _dilated(step="Add(%f, f32[2,1](0.5, 1.5))")),
        ("no convolution", chain("%b: f32[1,2,2,1,1,1] = Reshape(%x, i64[6](1, 2, 2, 1, 1, 1))",
                                  "%c: f32[2,1,1,1,2,1] = Transpose(%b) {perm=(2, 3, 0, 4, 1, 5)}",
                                  "%y: f32[2,1,2,1] = Reshape(%c, i64[4](2, 1, 2, 1))")),
        ("put the blocks together", chain("%b: f32[2,2,1,1,1,1] = Reshape(%x, i64[6](2, 2, 1, 1, 1, 1))",
                                           "%c: f32[1,1,2,1,2,1] = Transpose(%b) {perm=(2, 3, 0, 4, 1, 5)}",
                                           "%y: f32[2,2,1,1] = Reshape(%c, i64[4](2, 2, 1, 1))")),
    ],
    "reduce_before_transpose": [("keeps its axes", chain(
        "%a: f32[3,2] = Transpose(%x) {perm=(1, 0)}", "%y: f32[1,2] = ReduceMax(%a) {axes=(0,)}",
        params="%x: f32[2,3]"))],
    # The transposes stand at the small values: moving them costs more.
    "sink_transposes": [("", chain(
        "%a: f32[3,2] = Transpose(%x) {perm=(1, 0)}", "%b: f32[3,2] = Exp(%a)",
        "%c: f32[3,8] = Concat(%b, %z) {axis=1}",
        "%y: f32[8,3] = Transpose(%c) {perm=(1, 0)}", params="%x: f32[2,3], %z: f32[3,6]", result="%y, %c, %b, %a"))],
}  # fmt: skip
