"""Graphs that come close to what rules of logic and padding do; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_TWO = "%x: f32[4], %z: f32[4]"
_INTS = "%x: i32[N], %z: i32[N]"
_IMAGE = "%x: f32[1,2,4,4]"
_WINDOW = "kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)"
_PADDED = "%a: f32[1,2,6,6] = Pad({}, i64[8](0, 0, 0, 0, 1, 1, 1, 1){})"
_CONV = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"


def _pool(op: str = "MaxPool", x: str = "%r", fill: str = "", more: str = "", window: str = _WINDOW, n: int = 2) -> str:
    relu = ["%r: f32[1,2,4,4] = Relu(%x)"] if x == "%r" else []
    pool = f"%y: f32[1,2,{n},{n}] = {op}(%a) {{{window}{more}}}"
    return _chain(*relu, _PADDED.format(x, fill), pool, params=_IMAGE)


CASES: dict[str, list[tuple[str, str]]] = {
    "invert_comparison": [
        ("NaN", _chain("%a: bool[4] = Less(%x, %z)", "%y: bool[4] = Not(%a)", params=_TWO)),
    ],
    "eliminate_double_negation": [
        ("expected", _chain("%a: f32[4] = Neg(%x)", "%b: f32[4] = Abs(%a)", "%y: f32[4] = Neg(%b)")),
    ],
    "eliminate_repeated": [
        ("expected", _chain("%a: f32[4] = Floor(%x)", "%y: f32[4] = Ceil(%a)")),
        ("expected", _chain("%a: f32[4] = Neg(%x)", "%y: f32[4] = Relu(%a)")),
    ],
    "eliminate_sign": [
        ("expected", _chain("%a: f32[4] = Reciprocal(%x)", "%y: f32[4] = Abs(%a)")),
        ("no sign", _chain("%a: u32[4] = Neg(%x)", "%y: u32[4] = Abs(%a)", params="%x: u32[4]")),
    ],
    "fuse_negation": [
        ("in front", _chain("%a: f32[4] = Neg(%x)", "%y: f32[4] = Add(f32[](1.0), %a)")),
        ("expected", _chain("%a: f32[4] = Abs(%z)", "%y: f32[4] = Sub(%x, %a)", params=_TWO)),
    ],
    "eliminate_same_operands": [("two different", _chain("%y: f32[4] = Max(%x, %z)", params=_TWO))],
    "eliminate_known_operand": [
        ("two different", _chain("%a: f32[4] = Max(%x, %z)", "%y: f32[4] = Max(%w, %a)",
                                 params=_TWO + ", %w: f32[4]")),
        ("expected", _chain("%a: f32[4] = Min(%x, %z)", "%y: f32[4] = Max(%x, %a)", params=_TWO)),
    ],
    "fold_logic": [
        ("changes the shape", _chain("%y: bool[2,4] = And(%x, bool[2,1](True, True))", params="%x: bool[4]")),
        ("not known", _chain("%y: bool[N] = And(%x, bool[](False))", params="%x: bool[N]")),
        ("expected", _chain("%y: bool[2] = Or(%x, bool[2](True, False))", params="%x: bool[2]")),
    ],
    "fold_integers": [
        ("floats", _chain("%y: f32[4] = Sub(%x, %x)")),
        ("floats", _chain("%y: f32[4] = Mul(%x, f32[](0.0))")),
        ("floats", _chain("%y: bool[4] = Equal(%x, %x)")),
        ("not known", _chain("%y: i32[N] = Sub(%x, %x)", params=_INTS)),
        ("two different", _chain("%y: i32[N] = Sub(%x, %z)", params=_INTS)),
    ],
    "fold_where": [
        ("same everywhere", _chain("%y: f32[2] = Where(bool[2](True, False), %x, %z)",
                                   params="%x: f32[2], %z: f32[2]")),
        ("change the shape", _chain("%y: f32[2] = Where(bool[2](True, True), %x, %z)",
                                    params="%x: f32[1], %z: f32[2]")),
        ("not constant", _chain("%y: f32[4] = Where(%c, %x, %z)", params=_TWO + ", %c: bool[4]")),
        ("or empty", _chain("%y: f32[0] = Where(bool[0](), %x, %z)", params="%x: f32[0], %z: f32[0]")),
    ],
    "swap_choices": [
        ("expected", _chain("%b: bool[4] = IsNaN(%x)", "%y: f32[4] = Where(%b, %x, %z)", params=_TWO)),
    ],
    "compare_truth": [
        ("it is not a boolean", _chain("%a: f32[4] = Cast(%x) {to=f32}", "%y: bool[4] = Equal(%a, f32[](0.0))",
                                  params="%x: i32[4]")),
        ("not equal", _chain("%a: f32[4] = Cast(%x) {to=f32}", "%y: bool[4] = Equal(%a, f32[](1.00005))",
                             params="%x: bool[4]")),
        ("constant", _chain("%a: i32[4] = Cast(%x) {to=i32}", "%y: bool[4] = Equal(%a, i32[](2))",
                            params="%x: bool[4]")),
    ],
    "fuse_pads": [
        ("other numbers", _chain("%a: f32[6] = Pad(%x, i64[2](1, 1))",
                                 "%y: f32[8] = Pad(%a, i64[2](1, 1), f32[](2.0))")),
        ("cut off", _chain("%a: f32[6] = Pad(%x, i64[2](1, 1))", "%y: f32[5] = Pad(%a, i64[2](-1, 0))")),
        ("different ways", _chain('%a: f32[6] = Pad(%x, i64[2](1, 1)) {mode="edge"}',
                                  "%y: f32[8] = Pad(%a, i64[2](1, 1))")),
        ("mode=", _chain('%a: f32[6] = Pad(%x, i64[2](1, 1)) {mode="reflect"}',
                         '%y: f32[8] = Pad(%a, i64[2](1, 1)) {mode="reflect"}')),
    ],
    "fuse_pad_pool": [
        ("larger than", _pool(x="%x")),
        ("larger than", _pool(fill=", f32[](1.0)")),
        ("zeros that count", _pool("AveragePool", fill=", f32[](1.0)")),
        ("reach beyond", _pool(more=", ceil_mode=True", n=3)),
        ("auto_pad=", _pool(more=', auto_pad="SAME_UPPER"', n=3)),
        ("nothing but padding", _pool(window="kernel=(1, 1), strides=(3, 3), pads=(0, 0, 0, 0), dilations=(1, 1)")),
        ("pad batch or channels", _chain(_PADDED.format("%x", "").replace("1,2,6,6", "2,2,4,4").replace(
            "0, 0, 0, 0, 1, 1, 1, 1", "1, 0, 0, 0, 0, 0, 0, 0"),
            f"%y: f32[2,2,1,1] = MaxPool(%a) {{{_WINDOW}}}", params=_IMAGE)),
        # One row is put around by each, and windows have two.
        ("nothing but padding", _pool("AveragePool", n=7, more=", count_include_pad=True",
                                      window="kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)")),
        # Padding that counts stands at both ends alike, in the format.
        ("without padding only", _chain("%a: f32[1,2,5,5] = Pad(%x, i64[8](0, 0, 0, 0, 0, 1, 0, 1))",
                                        f"%y: f32[1,2,2,2] = AveragePool(%a) {{{_WINDOW}}}", params=_IMAGE)),
    ],
    "fuse_pad_conv_integer": [
        ("zero point", _chain("%a: u8[1,1,4,4] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 1, 1), u8[](4))",
                              f"%y: i32[1,1,4,4] = ConvInteger(%a, i8[1,1,1,1](2), u8[](3)) {_CONV}",
                              params="%x: u8[1,1,2,2]")),
        ("zero point", _chain("%a: u8[1,1,4,4] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 1, 1))",
                              f"%y: i32[1,1,4,4] = ConvInteger(%a, i8[1,1,1,1](2), %z) {_CONV}",
                              params="%x: u8[1,1,2,2], %z: u8[]")),
        ("batch or channels", _chain("%a: u8[1,2,2,2] = Pad(%x, i64[8](0, 0, 0, 1, 0, 0, 0, 0))",
                                     f"%y: i32[1,1,2,2] = ConvInteger(%a, i8[1,2,1,1](2, 3)) {_CONV}",
                                     params="%x: u8[1,1,2,2]")),
    ],
}  # fmt: skip
