"""What comes close to a rule of epilogues and must stay as it is: name -> (part of the reason, graph)."""

from __future__ import annotations

_W = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_ACTIVE = _W.replace("1)}", '1), activation="relu"}')


def _conv(line: str, attrs: str = _W, shape: str = "1,2,3,2", result: str = "%y", residual: str = "",
          dtype: str = "f32", z: str = "") -> str:  # fmt: skip
    """A convolution %a of %x, and a line that reads it."""
    more = f", _, {residual}" if residual else ""
    return (
        f"graph g(%x: {dtype}[{shape}], %z: {dtype}[{z or shape}]) {{ "
        f"%a: {dtype}[{shape}] = Conv(%x, {dtype}[2,2,1,1](1.0, 2.0, 3.0, 4.0){more}) {attrs} {line} return {result} }}"
    )


def _linear(line: str, attrs: str = "") -> str:
    return (
        "graph g(%x: f32[3,2], %z: f32[3,1]) { %a: f32[3,1] = Linear(%x, f32[1,2](1.0, 2.0), f32[1](1.0), %z)"
        f"{attrs} {line} return %y }}"
    )


_Y = "%y: f32[1,2,3,2] ="

_IN = "graph g(%x: f32[1,2,3,2], %s: f32[2]) {"
_AROUND = _W.replace("(0, 0, 0, 0)", "(1, 0, 0, 0)")
_SCALED = "%a: f32[1,2,3,2] = Scale(%x, f32[2](1.0, 2.0), f32[2](1.0, 0.0))"
_WEIGHTS = "f32[1,2,1,1](1.0, 2.0)"
_END = f"%y: f32[1,1,3,2] = Conv(%a, {_WEIGHTS}) {_W} return %y }}"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_residual": [
        ("also read by others", _conv(f"{_Y} Add(%a, %z)", result="%y, %a")),
        ("also read by others", _conv(f"{_Y} Add(%a, %a)")),
        ("does not have the shape", _conv(f"{_Y} Add(%a, %z)", z="2,1,1")),
        ("does not have the shape", _conv("%y: f32[4,2,3,2] = Add(%a, %z)", z="4,2,3,2")),
        ("does not have the shape", _conv("%y: f32[1,2,H,W] = Add(%a, %z)", shape="1,2,H,2", z="1,2,3,W")),
        ("has an activation", _conv(f"{_Y} Add(%a, %z)", _ACTIVE)),
        ("adds something", _conv(f"{_Y} Add(%a, %z)", residual="%z")),
        ("in f32", _conv("%y: f64[1,2,3,2] = Add(%a, %z)", dtype="f64")),
        ("neither summand", _conv(f"%b: f32[1,2,3,2] = Relu(%a) {_Y} Add(%b, %z)")),
        ("neither", "graph g(%x: f32[3,3]) { %a: f32[3,3] = MatMul(%x, %x) %y: f32[3,3] = Add(%a, %x) return %y }"),
    ],
    "fuse_activation": [
        ("also read by", _conv(f"{_Y} Tanh(%a)", result="%y, %a")),
        ("activation=relu", _conv(f"{_Y} Tanh(%a)", _ACTIVE)),
        ("of this form", _linear('%y: f32[3,1] = Gelu(%a) {approximate="tanh"}')),
        ("crossed", _linear("%y: f32[3,1] = Clip(%a) {min=2.0, max=1.0}")),
        ("in f32", _conv("%y: f64[1,2,3,2] = Sigmoid(%a)", dtype="f64")),
    ],
    "fuse_binary_relu": [
        ("also read by", "graph g(%x: f32[3]) { %a: f32[3] = Add(%x, %x) %y: f32[3] = Relu(%a) return %y, %a }"),
        ("in f32", "graph g(%x: i32[3]) { %a: i32[3] = Add(%x, %x) %y: i32[3] = Relu(%a) return %y }"),
        ("in f32", "graph g(%x: f16[3]) { %a: f16[3] = Add(%x, %x) %y: f16[3] = Relu(%a) return %y }"),
        ("expected", "graph g(%x: f32[3]) { %a: f32[3] = Pow(%x, %x) %y: f32[3] = Relu(%a) return %y }"),
        ("expected", "graph g(%x: f32[3]) { %a: f32[3] = BinaryRelu(%x, %x) %y: f32[3] = Relu(%a) return %y }"),
    ],
    "legalize_epilogue": [
        ("does nothing", _conv(f"{_Y} Tanh(%a)")),
        ("does nothing", _conv(f"{_Y} Tanh(%a)", _ACTIVE)),
    ],
    "fuse_conv_bn": [("a residual", _conv(
        f"{_Y} BatchNorm(%a, f32[2](1.0, 1.0), f32[2](1.0, 1.0), f32[2](1.0, 1.0), f32[2](1.0, 1.0))", residual="%z"))],
    "fuse_conv_mul": [("a residual", _conv(f"{_Y} Mul(%a, f32[](2.0))", residual="%z"))],
    "fuse_conv_scale": [("a residual", _conv(f"{_Y} Scale(%a, f32[2](1.0, 2.0), f32[2](1.0, 2.0))", residual="%z"))],
    "fuse_conv_bias": [("a residual", _conv(f"{_Y} Add(%a, f32[](2.0))", residual="%z"))],
    "fuse_norm_input": [
        ("padded", f"{_IN} {_SCALED} %y: f32[1,1,4,2] = Conv(%a, {_WEIGHTS}) {_AROUND} return %y }}"),
        ("padded", f"{_IN} {_SCALED} %y: f32[1,1,3,2] = Conv(%a, {_WEIGHTS}) "
                   + _W.replace("1)}", '1), auto_pad="SAME_UPPER"}') + " return %y }"),
        ("padded", f"{_IN} {_SCALED} %y: f32[1,1,3,2] = ConvTranspose(%a, f32[2,1,1,1](1.0, 2.0)) "
                   + _W.replace("1)}", "1), output_padding=(0, 0)}") + " return %y }"),
        ("computed", f"{_IN} %a: f32[1,2,3,2] = Scale(%x, %s, %s) {_END}"),
        ("not finite", f"{_IN} %a: f32[1,2,3,2] = Scale(%x, f32[2](1.0, inf), f32[2](0.0, 0.0)) "
                       f"{_END}"),
        ("also read by", f"{_IN} {_SCALED} %y: f32[1,1,3,2] = Conv(%a, {_WEIGHTS}) {_W} return %y, %a }}"),
        ("last axis", f"{_IN} {_SCALED} %y: f32[1,2,3,1] = Linear(%a, f32[1,2](1.0, 2.0)) return %y }}"),
        # No input has two channels and three.
        ("one per channel", "graph g(%x: f32[*]) { %a: f32[*] = Scale(%x, f32[2](3.0, 0.5), f32[2](1.0, 2.0)) "
                            f"%y: f32[?,1,?,?] = Conv(%a, f32[1,3,1,1](2.0, 4.0, 1.0)) {_W} return %y }}"),
        ("bias is computed", f"{_IN} {_SCALED} %y: f32[1,1,3,2] = Conv(%a, {_WEIGHTS}, %b) {_W} return %y }}".replace(
            "graph g(", "graph g(%b: f32[1], ")),
    ],
    "fuse_factor_input": [
        ("per channel", f"{_IN} %a: f32[1,2,3,2] = Mul(%x, f32[2](1.0, 2.0)) {_END}"),
        ("not constant", f"{_IN} %a: f32[1,2,3,2] = Mul(%x, %s) {_END}"),
        ("not finite", f"{_IN} %a: f32[1,2,3,2] = Div(%x, f32[](0.0)) {_END}"),
        ("not constant", f"{_IN} %a: f32[1,2,3,2] = Div(f32[](2.0), %x) {_END}"),
        ("per channel", "graph g(%x: f32[1,1,3,2]) { %a: f32[1,2,3,2] = Mul(%x, f32[2,1,1](1.0, 2.0)) "
                        f"{_END}"),
        ("weights are computed", f"{_IN} %a: f32[1,2,3,2] = Mul(%x, f32[](2.0)) %y: f32[1,1,3,2] = Conv(%a, %w) {_W} "
                                 "return %y }".replace("graph g(", "graph g(%w: f32[1,2,1,1], ")),
    ],
    "fuse_linear_norm": [
        ("last axis", "graph g(%x: f32[1,2,1]) { %a: f32[1,2,2] = Linear(%x, f32[2,1](1.0, 2.0)) "
                      "%y: f32[1,2,2] = Scale(%a, f32[2](2.0, 0.5), f32[2](1.0, 0.0)) return %y }"),
        ("computed", "graph g(%x: f32[3,1], %s: f32[2]) { %a: f32[3,2] = Linear(%x, f32[2,1](1.0, 2.0)) "
                     "%y: f32[3,2] = Scale(%a, %s, f32[2](1.0, 0.0)) return %y }"),
    ],
    "fuse_linear_bias": [("the bias is computed", _linear("%y: f32[3,1] = Add(%a, f32[](2.0))"))],
    "fuse_linear_scale": [("bias are computed", _linear("%y: f32[3,1] = Mul(%a, f32[](2.0))"))],
}  # fmt: skip
