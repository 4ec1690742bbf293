"""Graphs that come close to windows over integers; see test_negative.py."""

from __future__ import annotations

_IMAGE = "%a: f32[1,2,4,4] = DequantizeLinear(%x, f32[](0.5), u8[](3))"
_WINDOW = "{kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_POOL = f"%b: f32[1,2,2,2] = AveragePool(%a) {_WINDOW}"


def _mean(*lines: str, pool: str = _POOL, x: str = "u8[1,2,4,4]", last: str = "%b", size: int = 2,
          result: str = "%y") -> str:  # fmt: skip
    end = f"%y: u8[1,2,{size},{size}] = QuantizeLinear({last}, f32[](0.25), u8[](7))"
    return f"graph g(%x: {x}) {{ {' '.join(lines or (_IMAGE,))} {pool} {end} return {result} }}"


_IN = "%a: f32[1,2,2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))"
_W = "%w: f32[2,1,2,2] = DequantizeLinear(i8[2,1,2,2](4, -3, 2, 1, 5, 6, 7, 8), f32[1](0.25)) {axis=1}"
_CONV = ("%c: f32[1,1,4,4] = ConvTranspose(%a, %w, f32[1](0.5)) "
         "{strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), output_padding=(0, 0)}")  # fmt: skip


def _unfolding(*lines: str, begin: str = _IN, w: str = _W, conv: str = _CONV, last: str = "%c", size: int = 4,
               result: str = "%y") -> str:  # fmt: skip
    end = f"%y: u8[1,1,{size},{size}] = QuantizeLinear({last}, f32[](0.375), u8[](7))"
    return f"graph g(%x: u8[1,2,2,2]) {{ {begin} {w} {conv} {' '.join(lines)} {end} return {result} }}"


CASES: dict[str, list[tuple[str, str]]] = {
    "quantize_mean": [
        ("others read", _mean(result="%y, %b")),
        ("made of bytes", _mean("%a: f32[1,2,4,4] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 4))")),
        ("what the activation does", _mean(pool=f"{_POOL} %c: f32[1,2,2,2] = Relu(%b)", last="%c")),
        ("are not known", _mean(x="u8[*]")),
        ("are not known", _mean("%a: f32[1,2,H,4] = DequantizeLinear(%x, f32[](0.5), u8[](3))", x="u8[1,2,H,4]", size=1,
                                pool="%b: f32[1,2,1,1] = GlobalAveragePool(%a)")),
        ("no channels", _mean().replace("[1,2,", "[1,0,")),
        # Windows at the border have fewer numbers.
        ("as many numbers", _mean(pool=_POOL.replace("strides=(2, 2), pads=(0, 0, 0, 0)",
                                                     "strides=(3, 3), pads=(1, 1, 0, 0)"))),
        ("as many numbers", _mean(pool=_POOL.replace("(1, 1)}", "(1, 1), ceil_mode=True}"))),
    ],
    "quantize_unfolding": [
        ("others read", _unfolding(result="%y, %c")),
        ("made of bytes", _unfolding(begin="%a: f32[1,2,2,2] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 4))")),
        ("what the activation does", _unfolding("%d: f32[1,1,4,4] = Relu(%c)", last="%d")),
        ("overlap", _unfolding(conv=_CONV.replace("strides=(2, 2)", "strides=(1, 1)").replace(
            "[1,1,4,4]", "[1,1,3,3]"), size=3)),
        ("cut or filled up", _unfolding(conv=_CONV.replace("output_padding=(0, 0)", "output_padding=(1, 1)").replace(
            "[1,1,4,4]", "[1,1,5,5]"), size=5)),
        ("go along the channels", _unfolding(w=_W.replace("f32[1](0.25)) {axis=1}", "f32[2](0.25, 0.5)) {axis=0}"))),
        ("no places", _unfolding().replace("[1,2,2,2]", "[1,2,2,0]").replace("[1,1,4,4]", "[1,1,4,2]")),
        ("no whole number", _unfolding(conv=_CONV.replace("f32[1](0.5)", "f32[1](0.55)"))),
    ],
}  # fmt: skip
