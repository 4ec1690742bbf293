"""Graphs that come close to attention, and must stay as they are."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


def _attention(scale: str = "Mul(%a, f32[](0.5))", mask: str = "Add(%b, %m)", softmax: str = "Softmax(%c)",
               product: str = "MatMul(%q, %k) {transpose_b=True}", weighted: str = "MatMul(%d, %v)",
               scores: str = "2,2,3,5", k: str = "f32[2,2,5,4]", v: str = "f32[2,2,5,4]", more: str = "",
               m: str = "f32[2,1,1,5]") -> str:  # fmt: skip
    """Attention of two heads; each step may be another one."""
    return _chain(
        f"%a: f32[{scores}] = {product}",
        f"%b: f32[{scores}] = {scale}",
        f"%c: f32[{scores}] = {mask}",
        f"%d: f32[{scores}] = {softmax}",
        f"%y: f32[2,2,3,4] = {weighted}",
        params=f"%q: f32[2,2,3,4], %k: {k}, %v: {v}, %m: {m}",
        result=f"%y{more}",
    )


def _layers(q: str = "Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0))", k: str = "Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0))",
            v: str = "Linear(%x, f32[2,2](4.0, 3.0, 2.0, 1.0))", wide: int = 2, result: str = "%y") -> str:  # fmt: skip
    return _chain(
        f"%q: f32[2,3,2] = {q}",
        f"%k: f32[2,3,2] = {k}",
        f"%v: f32[2,3,{wide}] = {v}",
        f"%y: f32[2,3,{wide}] = Attention(%q, %k, %v) {{num_heads=2, scale=1.0}}",
        params="%x: f32[2,3,2], %z: f32[2,3,2], %w: f32[2,2], %b: f32[2]",
        result=result,
    )


def _cached(k: str = "Concat(%a, %b) {axis=2}", a: str = "1,2,3,4", b: str = "1,2,2,4", attrs: str = "",
            line: str = "", more: str = "") -> str:  # fmt: skip
    """Keys in two parts, %a and %b, five in all; values likewise."""
    return _chain(
        f"%k: f32[1,2,5,4] = {k}",
        line,
        "%v: f32[1,2,5,4] = Concat(%c, %d) {axis=2}",
        f"%y: f32[1,2,2,4] = Attention(%q, %k, %v) {{num_heads=2, scale=1.0{attrs}}}",
        params=f"%q: f32[1,2,2,4], %a: f32[{a}], %b: f32[{b}], %c: f32[1,2,3,4], %d: f32[1,2,2,4]",
        result=f"%y{more}",
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_attention": [
        ("not over the last axis", _attention(softmax="Softmax(%c) {axis=2}")),
        ("not the product of queries", _attention(scale="Mul(%a, %m)")),
        ("not the product of queries", _attention(scale="Mul(%a, f32[2,1,1](0.5, 0.25))")),
        ("not the product of queries", _attention(scale="Relu(%a)")),
        ("not the product alone", _attention(scale="Add(%a, %m)", mask="Mul(%b, f32[](0.5))")),
        ("divided by 0", _attention(scale="Div(%a, f32[](0.0))")),
        ("expected the product", _attention(mask="Relu(%b)")),
        ("not finite", _attention(scale="Mul(%a, f32[](1e30))", mask="Mul(%b, f32[](1e30))")),
        ("not get one number", _attention(mask="Where(%m, %b, f32[5](1.0, 2.0, 3.0, 4.0, 5.0))", m="bool[2,1,1,5]")),
        ("not the product of queries", _attention(scale="Exp(%a)")),
        ("also read by", _attention(more=", %d")),
        ("not the product of queries", _attention(more=", %b")),
        ("read elsewhere", _attention(more=", %c")),
        ("transpose_a", _attention(weighted="MatMul(%d, %v) {transpose_a=True}", scores="2,2,3,3", k="f32[2,2,3,4]",
                                   v="f32[2,2,3,4]", m="f32[2,1,1,3]")),
        # Keys have both heads, values one; or there are heads that no others fit.
        ("fit each other", _attention(v="f32[2,1,5,4]")),
        ("rank", _attention(v="f32[5,4]")),
        # Two conditions, of which each has its own number.
        ("not get one number", _attention("Where(%m, %a, f32[](-1.0))", "Where(%m, %b, f32[](-2.0))",
                                          m="bool[2,1,1,5]")),
        # The mask has heads, which the product has not.
        ("in one axis", _chain("%a: f32[1,1,3,5] = MatMul(%q, %k) {transpose_b=True}", "%b: f32[1,2,3,5] = Add(%a, %m)",
                               "%c: f32[1,2,3,5] = Softmax(%b)", "%y: f32[1,2,3,4] = MatMul(%c, %k)",
                               params="%q: f32[1,1,3,4], %k: f32[1,1,5,4], %m: f32[1,2,1,5]")),
        ("scores of rank 2", _chain("%a: f32[3,5] = MatMul(%q, %k) {transpose_b=True}", "%b: f32[3,5] = Softmax(%a)",
                                    "%y: f32[3,4] = MatMul(%b, %k)", params="%q: f32[3,4], %k: f32[5,4]")),
        ("not of types", _chain("%a: f64[1,3,5] = MatMul(%q, %k) {transpose_b=True}", "%b: f64[1,3,5] = Softmax(%a)",
                               "%y: f64[1,3,4] = MatMul(%b, %k)", params="%q: f64[1,3,4], %k: f64[1,5,4]")),
        # Softmax in 16 bits, of what others compute in f32.
        ("in f32 are rounded", _chain("%a: f32[1,3,5] = MatMul(%q, %k) {transpose_b=True}",
                                      "%b: f16[1,3,5] = Cast(%a) {to=f16}", "%c: f16[1,3,5] = Softmax(%b)",
                                      "%d: f32[1,3,5] = Cast(%c) {to=f32}", "%y: f32[1,3,4] = MatMul(%d, %k)",
                                      params="%q: f32[1,3,4], %k: f32[1,5,4]")),
        # Batch and heads in one axis, and neither their product nor the length is a number.
        ("unknown", _chain("%0: f32[N,S,2,4] = Reshape(%q, i64[4](0, 0, 2, 4))",
                           "%1: f32[N,2,S,4] = Transpose(%0) {perm=(0, 2, 1, 3)}",
                           "%s: i64[1] = Shape(%q) {start=1, end=2}",
                           "%t: i64[3] = Concat(i64[1](-1), %s, i64[1](4)) {axis=0}",
                           "%2: f32[?,S,4] = Reshape(%1, %t)",
                           "%a: f32[?,S,S] = MatMul(%2, %2) {transpose_b=True}", "%b: f32[?,S,S] = Softmax(%a)",
                           "%y: f32[?,S,4] = MatMul(%b, %2)", params="%q: f32[N,S,8]")),
        # Which queries see nothing is asked key by key.
        ("empty is not decided", _attention(
            softmax="Softmax(%c) %r: f32[2,2,1,5] = ReduceMax(%c) {axes=(2,)} "
                    "%e: bool[2,2,1,5] = Equal(%r, f32[](-inf)) %w: f32[2,2,3,5] = Where(%e, f32[](0.0), %d)",
            weighted="MatMul(%w, %v)")),
    ],
    "move_attention": [
        ("no attention", _chain("%y: f32[2,2] = Reshape(%x, i64[2](2, 2))")),
        ("side by side", _chain("%a: f32[2,3,4] = Attention(%x, %x, %x) {num_heads=2, scale=1.0}",
                                "%y: f32[2,3,2,2] = Reshape(%a, i64[4](0, 0, 2, 2))", params="%x: f32[2,3,4]")),
        # Of rank 3 the result has batch and length in this order only.
        ("the length comes first", _chain("%a: f32[2,3,4] = Attention(%x, %x, %x) {num_heads=2, scale=1.0}",
                                          "%y: f32[3,2,4] = Transpose(%a) {perm=(1, 0, 2)}", params="%x: f32[2,3,4]")),
        ("another way", _chain("%a: f32[2,2,3,4] = Attention(%x, %x, %x) {num_heads=2, scale=1.0}",
                               "%b: f32[3,2,2,4] = Transpose(%a) {perm=(2, 0, 1, 3)}",
                               "%y: f32[6,8] = Reshape(%b, i64[2](6, 8))", params="%x: f32[2,2,3,4]")),
        ("read elsewhere", _chain("%a: f32[2,2,3,4] = Attention(%x, %x, %x) {num_heads=2, scale=1.0}",
                                  "%b: f32[2,3,2,4] = Transpose(%a) {perm=(0, 2, 1, 3)}",
                                  "%y: f32[2,3,8] = Reshape(%b, i64[3](2, 3, 8))", params="%x: f32[2,2,3,4]",
                                  result="%y, %a")),
        # Batch and length are others behind an axis of one element: no shape says both without numbers.
        ("shape is not known", _chain("%a: f32[N,S,4] = Attention(%x, %x, %x) {num_heads=2, scale=1.0}",
                                      "%b: f32[N,S,4,1] = Unsqueeze(%a) {axes=(3,)}",
                                      "%y: f32[1,N,S,4] = Transpose(%b) {perm=(3, 0, 1, 2)}", params="%x: f32[N,S,4]")),
    ],
    "merge_qkv": [
        ("read by", _layers(result="%y, %q")),
        ("two different values", _layers(k="Linear(%z, f32[2,2](1.0, 2.0, 3.0, 4.0))")),
        ("not constant", _layers(v="Linear(%x, %w)")),
        ("more than a product", _layers(k='Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0)) {activation="relu"}')),
        ("more than a product", _layers(v="Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0), _, %z)")),
        ("more than a product", _layers(q="Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0), %b)")),
        ("not of one size", _layers(v="Linear(%x, f32[4,2](1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0))", wide=4)),
        # Heads have an axis of their own: parts of one layer's features would not.
        ("rank 4", _layers().replace("2,3,2]", "1,2,3,2]")),
    ],
    "fuse_attention_cache": [
        ("", _cached("Concat(%a, %b) {axis=1}", "1,1,5,4", "1,1,5,4")),
        ("", _cached("Concat(%a, %b, %b) {axis=2}", "1,2,1,4")),
        ("", _cached(attrs=", causal=True")),
        ("", _cached(line="%z: f32[1,2,5,4] = Exp(%k)", more=", %z")),
    ],
}  # fmt: skip
