"""Graphs that come close to layers in a row; see test_negative.py."""

from __future__ import annotations

_W22 = "f32[2,2](1.0, 2.0, 3.0, 4.0)"
_R = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)%s}"


def _linears(
    inner: str = _W22, outer: str = "f32[1,2](1.0, -2.0)", attrs: str = "", middle: int = 2, out: int = 1,
    result: str = "%y", other: str = "",
) -> str:  # fmt: skip
    return (
        f"graph g(%x: f32[3,2], %w: f32[2,2], %b: f32[1], %r: f32[3,2]) {{ %a: f32[3,{middle}] = "
        f"Linear(%x, {inner}){attrs} %y: f32[3,{out}] = Linear(%a, {outer}) {other} return {result} }}"
    )


def _convs(
    inner: str = "f32[2,1,1,1](1.0, 2.0)", outer: str = "f32[1,2,1,1](3.0, 4.0)", first: str = _R % "",
    second: str = _R % "", n: int = 4, out: int = 4, middle: int = 2, made: int = 1, x: str = "f32[1,1,4,4]",
) -> str:  # fmt: skip
    return (
        f"graph g(%x: {x}, %r: f32[1,2,4,4]) {{ %a: f32[1,{middle},{n},{n}] = Conv(%x, {inner}) {first} "
        f"%y: f32[1,{made},{out},{out}] = Conv(%a, {outer}) {second} return %y }}"
    )


_9 = "1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_linears": [
        # As adapters of low rank are.
        ("weights are more", _linears("f32[1,2](1.0, 2.0)", "f32[3,1](1.0, 2.0, 3.0)", middle=1, out=3)),
        ("not constant", _linears("%w")),
        ("biases are computed", _linears(outer="f32[1,2](1.0, -2.0), %b")),
        ("activation=", _linears(attrs=' {activation="relu"}')),
        ("range of floats", _linears("f32[2,2](1e30, 2.0, 3.0, 4.0)", "f32[1,2](1e10, -2.0)")),
        ("range of floats", _linears("f32[2,2](1.0, nan, 3.0, 4.0)")),
        ("adds something else", _linears(f"{_W22}, _, %r")),
        ("also read by", _linears(result="%y, %a")),
    ],
    "fuse_convs": [
        ("weights are more", _convs("f32[1,3,1,1](1.0, 2.0, 3.0)", "f32[3,1,1,1](1.0, 2.0, 3.0)", x="f32[1,3,4,4]",
                                    middle=1, made=3)),
        ("neither", _convs("f32[1,1,2,1](1.0, 2.0)", "f32[1,1,1,2](1.0, 2.0)",
                           first="{strides=(1, 1), pads=(0, 0, 1, 0), dilations=(1, 1)}",
                           second="{strides=(1, 1), pads=(0, 0, 0, 1), dilations=(1, 1)}", middle=1)),
        # What is skipped in between would be seen.
        ("neither", _convs("f32[1,1,1,1](2.0)", f"f32[1,1,3,3]({_9})", n=2, out=2, middle=1,
                           first="{strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}",
                           second="{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}")),
        ("padding between", _convs("f32[1,1,1,1](2.0), f32[1](1.0)", f"f32[1,1,3,3]({_9})", middle=1,
                                   second="{strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}")),
        ("group=", _convs("f32[2,1,1,1](1.0, 2.0)", first=_R % ", group=2", x="f32[1,2,4,4]")),
        ("activation=", _convs(first=_R % ', activation="relu"')),
        ("auto_pad=", _convs(first=_R % ', auto_pad="SAME_UPPER"')),
        ("adds something else", _convs("f32[2,1,1,1](1.0, 2.0), _, %r")),
    ],
}  # fmt: skip
