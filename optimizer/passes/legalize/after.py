"""What the format's layers do not do with their result, as nodes behind them."""

from __future__ import annotations

from minnow.optimizer.passes.fusion.epilogue import layers
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import FUNCTIONS, RESIDUAL, attrs_of

# What the format's layers do themselves, in whatever form they are there.
_OWN = {"Conv": ("relu", "relu6"), "ConvTranspose": ("relu", "relu6")}


@rewrite(lambda p, x: layers(p, x), level=0)
def legalize_epilogue(b: Builder, m: Match) -> Value | None:
    """A residual is added behind the layer; then comes the activation.

    Given:
        graph g(%x: f32[2,3], %z: f32[2,1]) {
          %y: f32[2,1] = Linear(%x, f32[1,3](1.0, 2.0, 3.0), f32[1](1.0), %z) {activation="clip", alpha=0.25}
          return %y
        }
    Result:
        graph g(%x: f32[2,3], %z: f32[2,1]) {
          %0: f32[2,1] = Linear(%x, f32[1,3](1.0, 2.0, 3.0), f32[1](1.0))
          %1: f32[2,1] = Add(%0, %z)
          %y: f32[2,1] = Clip(%1) {min=0.25}
          return %y
        }
    """
    layer = m.layer
    if not layer.has_input(RESIDUAL) and layer.attrs.get("activation", "") in ("", *_OWN.get(layer.op, ())):
        return m.no("it does nothing with its result that the format's layer does not do")
    return behind(b, layer)


def behind(b: Builder, layer: Node) -> Value:
    """The result of a layer that gives its products only, with its residual and its activation as nodes behind it."""
    attrs = dict(layer.attrs)
    name = attrs.pop("activation", "")
    numbers = attrs.pop("alpha", None), attrs.pop("beta", None)
    more = layer.inputs[RESIDUAL + 1 :]
    y: Value = b.node(layer.op, [*layer.inputs[:RESIDUAL], *((None, *more) if more else ())], attrs).output
    if layer.has_input(RESIDUAL):
        y = b.Add(y, layer.input(RESIDUAL))
    if not name:
        return y
    return b.node(FUNCTIONS[name].op, [y], attrs_of(name, *numbers)).output


@rewrite(lambda p, x: p.DynamicLinear(x, ..., activation="", as_="layer"), level=0)
def legalize_dynamic_linear(b: Builder, m: Match) -> Value | None:
    """The parts of a layer that quantizes its input by its own range.

    Given:
        graph g(%x: f32[2,3]) {
          %y: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), f32[2](1.0, 2.0), _, f32[](0.5))
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %0: u8[2,3], %1: f32[], %2: u8[] = DynamicQuantizeLinear(%x)
          %3: i32[2,2] = MatMulInteger(%0, i8[3,2](1, 2, 3, 4, 5, 6), %2)
          %4: f32[2,2] = Cast(%3) {to=f32}
          %5: f32[] = Mul(%1, f32[](0.5))
          %6: f32[2,2] = Mul(%4, %5)
          %y: f32[2,2] = Add(%6, f32[2](1.0, 2.0))
          return %y
        }
    """
    x, w, bias, residual, scale, zero = [*m.layer.inputs, None][:6]
    numbers, step, middle = b.node("DynamicQuantizeLinear", [x], {"steps": m.layer.attrs.get("steps", 0)}, 3).outputs
    y: Value = b.Mul(b.Cast(b.MatMulInteger(numbers, w, middle, zero), to=DType.F32), b.Mul(step, scale))
    for summand in (bias, residual):
        y = y if summand is None else b.Add(y, summand)
    return y
