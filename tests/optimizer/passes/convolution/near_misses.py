"""What comes close to a rule of convolutions and must stay as it is: name -> (part of the reason, graph)."""

from __future__ import annotations

_W = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_CONV = f"graph g(%x: f32[1,2,3,2]) {{ %a: f32[1,2,3,2] = Conv(%x, f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) {_W}"
_BIASED = _CONV.replace("%x: f32[1,2,3,2])", "%x: f32[1,2,3,2], %b: f32[2])").replace("4.0))", "4.0), %b)")
_RELU_CONV = _CONV.replace("1)}", '1), activation="relu"}')


def _side_by_side(first: str = "%a", second: str = "%b", w: str = "f32[1,1,1,1](3.0)", attrs: str = _W, axis: int = 1,
                  result: str = "%y", shape: str = "1,2,2,2", sizes: str = "1, 1") -> str:  # fmt: skip
    """Convolutions of the two channels of an image."""
    n, m = sizes.split(", ")
    params = "%x: f32[1,2,2,2], %z: f32[1,1,2,2], %w: f32[1,1,1,1]"
    return (
        f"graph g({params}) {{ %a: f32[1,{n},2,2], %b: f32[1,{m},2,2] = Split(%x) {{axis=1, sizes=({sizes})}} "
        f"%c: f32[1,1,2,2] = Conv({first}, f32[1,1,1,1](2.0)) {_W} "
        f"%d: f32[1,1,2,2] = Conv({second}, {w}) {attrs} "
        f"%y: f32[{shape}] = Concat(%c, %d) {{axis={axis}}} return {result} }}"
    )


def _wide(ins: int, outs: int, kernel: int, stride: int) -> str:
    """Convolutions of the two halves of an image's channels."""
    w = f"f32[{outs},{ins},{kernel},{kernel}]({', '.join(['1.0'] * (outs * ins * kernel**2))})"
    attrs = f"{{strides=({stride}, {stride}), pads=(0, 0, 0, 0), dilations=(1, 1)}}"
    part, out = f"f32[1,{ins},{kernel},{kernel}]", f"f32[1,{outs},1,1]"
    return (
        f"graph g(%x: f32[1,{2 * ins},{kernel},{kernel}]) {{ "
        f"%a: {part}, %b: {part} = Split(%x) {{axis=1, sizes=({ins}, {ins})}} "
        f"%c: {out} = Conv(%a, {w}) {attrs} %d: {out} = Conv(%b, {w}) {attrs} "
        f"%y: f32[1,{2 * outs},1,1] = Concat(%c, %d) {{axis=1}} return %y }}"
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_conv_bn": [
        ("has an activation", f"{_RELU_CONV} %y: f32[1,2,3,2] = BatchNorm(%a, f32[2](1.0, 1.0), f32[2](1.0, 1.0), "
                              "f32[2](1.0, 1.0), f32[2](1.0, 1.0)) return %y }"),
        ("zero or negative", f"{_CONV} %y: f32[1,2,3,2] = BatchNorm(%a, f32[2](1.0, 1.0), f32[2](1.0, 1.0), "
                             "f32[2](1.0, 1.0), f32[2](-1.0, 1.0)) return %y }"),
        ("are computed", f"graph g(%x: f32[1,2,3,2], %w: f32[2,2,1,1]) {{ %a: f32[1,2,3,2] = Conv(%x, %w) {_W} "
                         "%y: f32[1,2,3,2] = BatchNorm(%a, f32[2](1.0, 1.0), f32[2](1.0, 1.0), f32[2](1.0, 1.0), "
                         "f32[2](1.0, 1.0)) return %y }"),
        ("bias is computed", f"{_BIASED} %y: f32[1,2,3,2] = BatchNorm(%a, f32[2](1.0, 1.0), f32[2](1.0, 1.0), "
                             "f32[2](1.0, 1.0), f32[2](1.0, 1.0)) return %y }"),
    ],
    "fuse_conv_mul": [
        # Two numbers along the last axis, whose size is that of the channels.
        ("not one number per channel", f"{_CONV} %y: f32[1,2,3,2] = Mul(%a, f32[2](2.0, 3.0)) return %y }}"),
        ("has an activation", f"{_RELU_CONV} %y: f32[1,2,3,2] = Mul(%a, f32[](2.0)) return %y }}"),
        ("not finite", f"{_CONV} %y: f32[1,2,3,2] = Div(%a, f32[](0.0)) return %y }}"),
        ("not one number per channel", f"{_CONV} %y: f32[2,2,3,2] = Mul(%a, f32[2,1,1,1](2.0, 3.0)) return %y }}"),
        ("bias is computed", f"{_BIASED} %y: f32[1,2,3,2] = Mul(%a, f32[](2.0)) return %y }}"),
    ],
    "fuse_conv_scale": [
        ("has an activation", f"{_RELU_CONV} %y: f32[1,2,3,2] = Scale(%a, f32[2](2.0, 3.0), f32[2](2.0, 3.0)) "
                              "return %y }"),
        ("bias is computed", f"{_BIASED} %y: f32[1,2,3,2] = Scale(%a, f32[2](2.0, 3.0), f32[2](2.0, 3.0)) "
                             "return %y }"),
        ("not finite", f"{_CONV} %y: f32[1,2,3,2] = Scale(%a, f32[2](2.0, inf), f32[2](2.0, 3.0)) return %y }}"),
    ],
    "fuse_conv_bias": [
        ("not one number per channel", f"{_CONV} %y: f32[1,2,3,2] = Add(%a, f32[2](2.0, 3.0)) return %y }}"),
        ("not one number per channel", f"{_CONV} %y: f32[1,1,2,3,2] = Add(%a, f32[1,1,2,1,1](2.0, 3.0)) return %y }}"),
        ("has an activation", f"{_RELU_CONV} %y: f32[1,2,3,2] = Add(%a, f32[](2.0)) return %y }}"),
        ("bias is computed", f"{_BIASED} %y: f32[1,2,3,2] = Add(%a, f32[](2.0)) return %y }}"),
    ],
    "fuse_conv_activation": [
        ("already", f"{_RELU_CONV} %y: f32[1,2,3,2] = Clip(%a) {{min=0.0, max=6.0}} return %y }}"),
        ("max=", f"{_CONV} %y: f32[1,2,3,2] = Clip(%a) {{min=0.0, max=5.0}} return %y }}"),
    ],
    "fuse_pad_conv": [
        (why, f"graph g(%x: f32[1,1,2,2]) {{ %a: f32[{shape}] = Pad(%x, i64[8]({pads}){value}) {{mode=\"{mode}\"}} "
              f"%y: f32[{shape}] = Conv(%a, f32[1,{shape[2]},1,1]({ones})) {_W} return %y }}")
        for why, shape, pads, value, mode, ones in (
            ("does not pad with zeros", "1,1,4,2", "0, 0, 0, 0, 1, 1, 0, 0", ", f32[](1.0)", "constant", "1.0"),
            ("mode=", "1,1,4,2", "0, 0, 0, 0, 1, 1, 0, 0", "", "edge", "1.0"),
            ("batch or channels", "2,1,2,2", "1, 0, 0, 0, 0, 0, 0, 0", "", "constant", "1.0"),
            ("crops", "1,1,1,2", "0, 0, 0, 0, -1, 0, 0, 0", "", "constant", "1.0"),
        )
    ] + [
        # How much it pads by itself depends on the dimensions that it sees.
        ("automatic", "graph g(%x: f32[1,1,2,2]) { %a: f32[1,1,4,4] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 1, 1)) "
                      "%y: f32[1,1,4,4] = Conv(%a, f32[1,1,2,2](1.0, 2.0, 3.0, 4.0)) "
                      + _W[:-1] + ', auto_pad="SAME_UPPER"} return %y }'),
    ],
    "fuse_slices_conv": [
        (why, f"graph g(%x: f32[1,1,2,{width}]) {{ "
              f"%a: f32[1,1,2,2] = Slice(%x, i64[1](0), i64[1]({width}), i64[1](3), i64[1]({step})) "
              f"%b: f32[1,1,2,2] = Slice(%x, i64[1]({start}), i64[1]({end}), i64[1](3), i64[1]({step})) "
              f"%c: f32[1,2,2,2] = Concat(%a, %b) {{axis=1}} "
              f"%y: f32[1,1,2,2] = Conv(%c, f32[1,2,1,1](2.0, 3.0)) {_W} return %y }}")
        for why, width, step, start, end in (
            ("shifted subsamplings", 4, 2, 0, 4),
            ("shifted subsamplings", 6, 3, 1, 6),
            ("cover the image", 3, 2, 0, 3),
        )
    ] + [
        ("groups", "graph g(%x: f32[1,1,2,4]) { "
                   "%a: f32[1,1,2,2] = Slice(%x, i64[1](0), i64[1](4), i64[1](3), i64[1](2)) "
                   "%b: f32[1,1,2,2] = Slice(%x, i64[1](1), i64[1](4), i64[1](3), i64[1](2)) "
                   "%c: f32[1,2,2,2] = Concat(%a, %b) {axis=1} "
                   "%y: f32[1,2,2,2] = Conv(%c, f32[2,1,1,1](2.0, 3.0)) {strides=(1, 1), pads=(0, 0, 0, 0), "
                   "dilations=(1, 1), group=2} return %y }"),
        # One below the other.
        ("no channels", "graph g(%x: f32[1,1,2,4]) { "
                        "%a: f32[1,1,2,2] = Slice(%x, i64[1](0), i64[1](4), i64[1](3), i64[1](2)) "
                        "%b: f32[1,1,2,2] = Slice(%x, i64[1](1), i64[1](4), i64[1](3), i64[1](2)) "
                        "%c: f32[1,1,4,2] = Concat(%a, %b) {axis=2} "
                        f"%y: f32[1,1,4,2] = Conv(%c, f32[1,1,1,1](2.0)) {_W} return %y }}"),
        # The second part has one of the two channels only.
        ("differ in size", "graph g(%x: f32[1,2,2,4]) { "
                           "%a: f32[1,2,2,2] = Slice(%x, i64[1](0), i64[1](4), i64[1](3), i64[1](2)) "
                           "%b: f32[1,1,2,2] = Slice(%x, i64[2](0, 1), i64[2](1, 4), i64[2](1, 3), i64[2](1, 2)) "
                           "%c: f32[1,3,2,2] = Concat(%a, %b) {axis=1} "
                           f"%y: f32[1,1,2,2] = Conv(%c, f32[1,3,1,1](2.0, 3.0, 4.0)) {_W} return %y }}"),
    ],
    "fuse_group_conv": [
        *(("one by one they are faster", _wide(ins, outs, 3, strides)) for ins, outs, strides in (
            (16, 16, 1), (3, 6, 2), (4, 8, 2), (8, 16, 2), (16, 8, 2), (5, 5, 2))),
        ("in order", _side_by_side(first="%b", second="%a")),
        ("others read", _side_by_side(second="%a")),
        ("in order", _side_by_side(second="%z")),
        ("others read", _side_by_side(result="%y, %b")),
        ("of few bits", _side_by_side(w="%w")),
        ("no channels", _side_by_side(axis=2, shape="1,1,4,2")),
        ("more than their numbers", _side_by_side(attrs=_W[:-1] + ', activation="relu"}')),
        ("more than their numbers", _side_by_side(w="f32[2,1,1,1](3.0, 4.0)", shape="1,3,2,2").replace(
            "%d: f32[1,1,2,2]", "%d: f32[1,2,2,2]")),
        ("biases are computed", _side_by_side(w="f32[1,1,1,1](3.0), %v").replace("%w: f32[1,1,1,1]", "%v: f32[1]")),
        ("add a residual", _side_by_side(w="f32[1,1,1,1](3.0), _, %z")),
        ("in order", "graph g(%x: f32[1,3,2,2]) { "
                     "%a: f32[1,1,2,2], %b: f32[1,1,2,2], %e: f32[1,1,2,2] = Split(%x) {axis=1, sizes=(1, 1, 1)} "
                     f"%c: f32[1,1,2,2] = Conv(%a, f32[1,1,1,1](2.0)) {_W} "
                     f"%d: f32[1,1,2,2] = Conv(%b, f32[1,1,1,1](2.0)) {_W} "
                     "%y: f32[1,2,2,2] = Concat(%c, %d) {axis=1} return %y }"),
    ],
}  # fmt: skip
