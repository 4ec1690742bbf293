"""Graphs that come close to layers between DequantizeLinear and QuantizeLinear; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: u8[1,2,2,2]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_WINDOW = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_IN = "%a: f32[1,2,2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))"
_W = "%w: f32[2,2,1,1] = DequantizeLinear(i8[2,2,1,1](4, -3, 2, 1), f32[2](0.25, 0.5)) {axis=0}"
_CONV = f"%c: f32[1,2,2,2] = Conv(%a, %w, f32[2](0.5, -1.25)) {_WINDOW}"
_OUT = "%y: u8[1,2,2,2] = QuantizeLinear({}, f32[](0.375), u8[]({}))"


def _conv(begin: str = _IN, weights: str = _W, conv: str = _CONV, *more: str, last: str = "%c", zero: int = 5,
          result: str = "%y") -> str:  # fmt: skip
    return _chain(begin, weights, conv, *more, _OUT.format(last, zero), result=result)


_ROWS = "%a: f32[3,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))"
_MATRIX = "%w: f32[2,2] = DequantizeLinear(i8[2,2](4, -3, 2, 1), {})"
_PRODUCT = "%c: f32[3,2] = MatMul(%a, %w)"
_ROWS_OUT = "%y: u8[3,2] = QuantizeLinear({}, f32[](0.375), u8[](7))"


def _matmul(*lines: str, weights: str = _MATRIX.format("f32[](0.25)"), last: str = "%c", result: str = "%y") -> str:
    return _chain(_ROWS, weights, *(lines or [_PRODUCT]), _ROWS_OUT.format(last), params="%x: u8[3,2]", result=result)


_RIGHT = "%w: f32[2,2] = DequantizeLinear(%z, f32[](0.25), u8[](128))"


def _attention(*lines: str, right: str = _RIGHT, last: str = "%c", result: str = "%y") -> str:
    product = lines or [_PRODUCT]
    return _chain(_ROWS, right, *product, _ROWS_OUT.format(last), params="%x: u8[3,2], %z: u8[2,2]", result=result)


_A = "%a: f32[2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))"
_B = "%b: f32[2,2] = DequantizeLinear(%z, f32[](0.25), u8[](0))"
_SUM = "%c: f32[2,2] = Add(%a, %b)"


def _sum(*lines: str, zero: int = 7, last: str = "%c", scale: str = "0.375", result: str = "%y") -> str:
    end = f"%y: u8[2,2] = QuantizeLinear({last}, f32[]({scale}), u8[]({zero}))"
    return _chain(*(lines or (_A, _B, _SUM)), end, params="%x: u8[2,2], %z: u8[2,2]", result=result)


_REPEAT = ("%0: u8[1,2,1,5,2] = Unsqueeze(%x) {axes=(2,)}", "%1: u8[1,2,2,5,2] = Expand(%0, i64[5](1, 2, 2, 5, 2))",
           "%2: u8[1,4,5,2] = Reshape(%1, i64[4](1, 4, 5, 2))")  # fmt: skip


def _heads(x: str = "u8[1,2,5,2]", repeat: tuple[str, ...] = _REPEAT, step: str = "f32[](0.5), u8[](3))",
           a: str = "[1,4,3,2]", k: str = "[1,4,5,2]", product: str = "[1,4,3,5] = MatMul(%a, %k) {transpose_b=True}"
           ) -> str:  # fmt: skip
    numbers = f"%k: f32{k} = DequantizeLinear({'%2' if repeat else '%x'}, {step}"
    return _chain(*repeat, numbers, f"%y: f32{product}", params=f"%a: f32{a}, %x: {x}")


CASES: dict[str, list[tuple[str, str]]] = {
    "quantize_conv": [
        ("others read", _conv(result="%y, %c")),
        ("what the activation does", _conv(_IN, _W, _CONV, "%d: f32[1,2,2,2] = Relu(%c)", last="%d")),
        ("what the activation does", _conv(_IN, _W, _CONV, "%d: f32[1,2,2,2] = Clip(%c) {min=0.0, max=6.0}", last="%d",
                                           zero=0)),
        ("no whole number", _conv(conv=_CONV.replace("-1.25", "-1.3"))),
        ("go along the channels", _conv(weights=_W.replace(" {axis=0}", ""))),
        ("made of bytes", _conv(_IN.replace("f32[](0.5), u8[](3)", "f32[2](0.5, 0.25), u8[2](3, 4)"))),
        ("made of bytes", _conv(weights="%w: f32[2,2,1,1] = Transpose(f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) "
                                        "{perm=(1, 0, 2, 3)}")),
        ("bias is computed", _conv(conv=_CONV.replace("f32[2](0.5, -1.25)", "%b")).replace(
            "%x: u8", "%b: f32[2], %x: u8")),
    ],
    "quantize_matmul": [
        ("others read", _matmul(result="%y, %c")),
        ("along the columns", _matmul(weights=_MATRIX.format("f32[2](0.25, 0.5)") + " {axis=0}")),
        ("no whole number", _matmul(_PRODUCT, "%d: f32[3,2] = Add(%c, f32[2](0.5, 0.3))", last="%d")),
        ("each column", _matmul(_PRODUCT, "%d: f32[3,2] = Add(%c, f32[3,1](0.5, 1.0, 0.0))", last="%d")),
        # Two numbers for the only column: the sum has a column more than the product.
        ("each column", _matmul("%c: f32[3,1] = MatMul(%a, %w)", "%d: f32[3,2] = Add(%c, f32[2](0.5, 1.0))", last="%d",
                                weights="%w: f32[2,1] = DequantizeLinear(i8[2,1](4, -3), f32[](0.25))")),
        ("what the activation does", _matmul(_PRODUCT, "%d: f32[3,2] = Relu(%c)", last="%d")),
        ("made of bytes", _matmul(weights="%w: f32[2,2] = Transpose(f32[2,2](1.0, 2.0, 3.0, 4.0)) {perm=(1, 0)}")),
        ("is a vector", _matmul("%c: f32[2] = MatMul(%a, %w)").replace("[3,2]", "[2]")),
        # The file tells the shape of what the integers mean, but not their own.
        ("rank is not known", _matmul().replace("%x: u8[3,2]", "%x: u8[*]")),
    ],
    "quantize_product": [
        ("others read", _attention(result="%y, %c")),
        ("made of bytes", _attention(right="%w: f32[2,2] = Cast(%z) {to=f32}")),
        ("one constant scale", _attention(
            right="%w: f32[2,2] = DequantizeLinear(%z, f32[2](0.25, 0.5), u8[2](3, 4)) {axis=1}")),
        ("another rule knows", _matmul(_PRODUCT, "%d: f32[3,2] = Relu(%c)", last="%d")),
        ("what the activation does", _attention(_PRODUCT, "%d: f32[3,2] = Relu(%c)", last="%d")),
        ("is transposed", _attention("%c: f32[3,2] = MatMul(%a, %w) {transpose_b=True}")),
        ("is a vector", _attention("%c: f32[2] = MatMul(%a, %w)").replace("[3,2]", "[2]")),
    ],
    "quantize_sum": [
        ("others read", _sum(result="%y, %c")),
        ("shapes differ", _chain("%a: f32[2] = DequantizeLinear(%x, f32[](0.5), u8[](3))", _B, _SUM,
                                 "%y: u8[2,2] = QuantizeLinear(%c, f32[](0.375), u8[](7))",
                                 params="%x: u8[2], %z: u8[2,2]")),
        ("made of bytes", _sum("%a: f32[2,2] = Cast(%x) {to=f32}", _B, _SUM)),
        ("much larger", _sum(scale="0.0001")),
        ("much larger", _sum(_A.replace("0.5", "-500.0"), _B, _SUM)),
        ("much smaller", _sum(_A.replace("0.5", "1e-30"), _B, _SUM)),
        ("what the activation does", _sum(_A, _B, _SUM, "%d: f32[2,2] = Relu(%c)", last="%d")),
    ],
    "tabulate_function": [
        ("it is a table", _chain("%i: i32[256] = Range(i32[](0), i32[](256), i32[](1))",
                                 "%b: u8[256] = Cast(%i) {to=u8}",
                                 "%a: f32[256] = DequantizeLinear(%b, f32[](0.5), u8[](3))",
                                 "%y: f32[256] = Sigmoid(%a)")),
        ("more than one number", _chain("%a: f32[20,20] = DequantizeLinear(%x, f32[](0.5), u8[](3))",
                                        "%y: f32[2,20,20] = Mul(%a, f32[2,1,1](2.0, 3.0))", params="%x: u8[20,20]")),
        ("one constant scale", _chain("%a: f32[2,200] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 4)) {axis=0}",
                                      "%y: f32[2,200] = Exp(%a)", params="%x: u8[2,200]")),
    ],
    "move_integers": [
        ("something else", _chain(_A, "%b: f32[2,2] = Transpose(%a) {perm=(1, 0)}",
                                  "%y: u8[2,2] = QuantizeLinear(%b, f32[](0.5), u8[](4))", params="%x: u8[2,2]")),
        ("something else", _chain(_A, "%b: f32[2,2] = Transpose(%a) {perm=(1, 0)}",
                                  "%y: i8[2,2] = QuantizeLinear(%b, f32[](0.5), i8[](3)) {to=i8}",
                                  params="%x: u8[2,2]")),
        ("constant scale", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 3))",
                                  "%b: f32[2,2] = Transpose(%a) {perm=(1, 0)}",
                                  "%y: u8[2,2] = QuantizeLinear(%b, f32[2](0.5, 0.25), u8[2](3, 3))",
                                  params="%x: u8[2,2]")),
        ("numbers between", _chain("%a: f32[1,1,2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))",
                                   '%b: f32[1,1,4,4] = Resize(%a, _, f32[4](1.0, 1.0, 2.0, 2.0)) {mode="linear"}',
                                   "%y: u8[1,1,4,4] = QuantizeLinear(%b, f32[](0.5), u8[](3))",
                                   params="%x: u8[1,1,2,2]")),
    ],
    "move_integers_far": [
        ("made of integers", _chain("%a: f32[4] = Reshape(%x, i64[1](4))",
                                    "%y: u8[4] = QuantizeLinear(%a, f32[](0.5), u8[](3))", params="%x: f32[2,2]")),
        ("something else", _chain(_A, "%b: f32[2,2] = Transpose(%a) {perm=(1, 0)}",
                                  "%c: f32[4] = Reshape(%b, i64[1](4))",
                                  "%y: u8[4] = QuantizeLinear(%c, f32[](0.5), u8[](4))", params="%x: u8[2,2]")),
        ("constant scale", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 3))",
                                  "%b: f32[2,2] = Transpose(%a) {perm=(1, 0)}", "%c: f32[4] = Reshape(%b, i64[1](4))",
                                  "%y: u8[4] = QuantizeLinear(%c, f32[](0.5), u8[](3))", params="%x: u8[2,2]")),
    ],
    "spell_wide": [
        ("16 bits", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))", "%y: f32[2,2] = HardSwish(%a)",
                           params="%x: u8[2,2]")),
        ("more than one scale", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[2](0.5, 0.25), i16[2](0, 0)) {axis=0}",
                                       "%y: f32[2,2] = HardSwish(%a)", params="%x: i16[2,2]")),
        ("zero point", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[](0.5), i16[](7))",
                              "%y: f32[2,2] = HardSwish(%a)", params="%x: i16[2,2]")),
        ("others than functions", _chain("%a: f32[2,2] = DequantizeLinear(%x, f32[](0.5), i16[](0))",
                                         "%y: f32[2,2] = Softmax(%a) {axis=1}", params="%x: i16[2,2]")),
    ],
    "quantize_before_repeating": [
        ("one scale", _chain("%a: f32[2,3] = Expand(%x, i64[2](2, 3))",
                             "%y: u8[2,3] = QuantizeLinear(%a, f32[2](0.5, 0.25), u8[2](3, 4)) {axis=0}",
                             params="%x: f32[1,3]")),
        ("others read", _chain("%a: f32[2,3] = Expand(%x, i64[2](2, 3))",
                               "%y: u8[2,3] = QuantizeLinear(%a, f32[](0.5), u8[](3))",
                               params="%x: f32[1,3]", result="%y, %a")),
        ("nothing is repeated", _chain("%a: f32[3,2] = Transpose(%x) {perm=(1, 0)}",
                                       "%y: u8[3,2] = QuantizeLinear(%a, f32[](0.5), u8[](3))",
                                       params="%x: f32[2,3]")),
    ],
    "share_heads": [
        ("one constant scale", _heads(step="f32[5](0.5, 0.25, 1.0, 2.0, 3.0), u8[5](3, 3, 3, 3, 3)) {axis=2}")),
        ("each stand for several", _heads("u8[1,4,5,2]", ())),
        # Heads that lie side by side have different keys.
        ("each stand for several", _heads(repeat=(
            "%0: u8[1,1,2,5,2] = Unsqueeze(%x) {axes=(1,)}", "%1: u8[1,2,2,5,2] = Expand(%0, i64[5](1, 2, 2, 5, 2))",
            "%2: u8[1,4,5,2] = Reshape(%1, i64[4](1, 4, 5, 2))"))),
        ("axis of known size", _heads(a="[4,3,2]")),
        ("axis of known size", _heads(a="[1,H,3,2]")),
        ("two dimensions", _heads("u8[1,2,T,2]", (
            "%0: u8[1,2,1,T,2] = Unsqueeze(%x) {axes=(2,)}", "%1: u8[1,2,2,T,2] = Expand(%0, i64[5](1, 1, 2, 1, 1))",
            "%2: u8[1,4,T,2] = Reshape(%1, i64[4](1, 4, -1, 2))"), k="[1,4,T,2]", a="[1,4,N,T]",
            product="[1,4,N,2] = MatMul(%a, %k)")),
    ],
    "join_integers": [
        ("made of bytes", _chain("%c: f32[2,6] = Concat(%x, %z) {axis=1}",
                                 "%y: u8[2,6] = QuantizeLinear(%c, f32[](0.5), u8[](3))",
                                 params="%x: f32[2,3], %z: f32[2,3]")),
    ],
}  # fmt: skip
