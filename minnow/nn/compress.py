"""Training with quantization in mind: layers compute with what weights and inputs will be as integers of 8 bits.

net = compress.train_quant(net)
...                                  # train as before: rounding counts as no change for the gradients
net.train(False)
expr.save([net(image)], "net.mnn")   # with the scales that training has found
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from minnow.expr.constant import NC4HW4, NHWC
from minnow.expr.layout import convert
from minnow.expr.names import named
from minnow.expr.operation import apply
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.nn.layer import Convolution, Linear
from minnow.nn.module import Module
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType

ScaleMethod = Literal["moving_average", "max"]


def _fixed(x: Var) -> Var:
    """x as a number that the gradient does not see: its bits are integers on the way."""
    bits = apply("BitCast", x, to=DType.I32)
    made: Var = apply("BitCast", bits, to=DType.F32)
    return made


def _rounded(x: Var, scale: Any, zero: Any, axis: int) -> Var:
    """x as integers of 8 bits, and back."""
    integers = apply("QuantizeLinear", x, scale, zero, axis=axis, to=DType.I8)
    made: Var = apply("DequantizeLinear", integers, scale, zero, axis=axis)
    return made


class _Range(Module):
    """The range of what a layer is given, collected in training."""

    def __init__(self, method: str, momentum: float) -> None:
        super().__init__()
        self._method, self._momentum = method, momentum
        self.low, self.high = Var(np.float32(0)), Var(np.float32(0))
        for var in (self.low, self.high):
            var.fix_as_trainable()  # as the statistics of batch normalization are: what is written is no new graph
        self._new: list[tuple[Var, Var]] = []
        self.__dict__["_is_empty"] = True

    def _statistics(self) -> Sequence[Var]:
        return self.low, self.high

    def _pending(self) -> list[tuple[Var, Var]]:
        return self._new

    def _settle(self) -> None:
        new, self.__dict__["_new"] = self._new, []
        for var, value in new:
            var.write(value.read())

    def forward(self, x: Var) -> Var:
        """x with the steps of 8 bits over the range, which always holds 0."""
        if not self.is_training:
            low, high = (np.float32(v.read()) for v in (self.low, self.high))
            scale = np.float32(max(float(high - low), 1e-6) / 255)
            zero = np.int8(np.clip(np.rint(-128 - low / scale), -128, 127))
            return _rounded(x, Var.from_array(np.asarray(scale)), Var.from_array(np.asarray(zero)), 1)
        self._settle()
        nothing = Var.from_array(np.zeros((), np.float32))
        low = apply("Min", apply("ReduceMin", x, axes=None, keepdims=False), nothing)
        high = apply("Max", apply("ReduceMax", x, axes=None, keepdims=False), nothing)
        low, high = self._collected(_fixed(low), _fixed(high))
        scale = apply("Max", high - low, Var.from_array(np.float32(1e-6).reshape(()))) * (1 / 255)
        zero = apply("Clip", apply("Round", -128.0 - low / scale), min=-128.0, max=127.0)
        return _rounded(x, scale, apply("Cast", zero, to=DType.I8), 1)

    def _collected(self, low: Var, high: Var) -> tuple[Var, Var]:
        old = [Var.from_array(v.read()) for v in (self.low, self.high)]
        if self.__dict__["_is_empty"]:
            self.__dict__["_is_empty"] = False
        elif self._method == "max":
            low, high = apply("Min", old[0], low), apply("Max", old[1], high)
        else:
            m = self._momentum
            low, high = (o * m + n * (1 - m) for o, n in zip(old, (low, high), strict=True))
        self.__dict__["_new"] = [(self.low, low), (self.high, high)]
        if not SETTINGS.lazy:
            self._settle()
        return low, high


class QuantizedLayer(Module):
    """A convolution or a linear layer, with its input and its weights rounded."""

    def __init__(self, layer: Convolution | Linear, bits: int, method: str, momentum: float) -> None:
        super().__init__()
        self.layer = layer
        self.range = _Range(method, momentum)
        self._most = float(2 ** (bits - 1) - 1)

    def _weight(self) -> Var:
        """Each output channel in steps of its own."""
        weight = self.layer._vars["weight"]
        axes = tuple(range(1, weight.ndim))
        most = apply("ReduceMax", apply("Abs", weight), axes=axes, keepdims=False)
        scale = _fixed(apply("Max", most, Var.from_array(np.float32(1e-12).reshape(()))) * (1 / self._most))
        if not self.is_training:
            scale = Var.from_array(scale.read())
        return _rounded(weight, scale, Var.from_array(np.zeros(weight.shape[0], np.int8)), 0)

    def forward(self, x: Any) -> Var:
        """As the layer's."""
        image = as_var(x)
        if isinstance(self.layer, Convolution) and image.data_format is NHWC:
            image = convert(image, NC4HW4)
        kept = self.layer._vars["weight"]
        given = self.range.forward(image)
        given.data_format = image.data_format
        rounded = self._weight()
        self.layer._vars["weight"] = rounded
        try:
            made: Var = self.layer.forward(given)
        finally:
            self.layer._vars["weight"] = kept
        return made


@named("nn.compress", like="torch.ao.quantization.prepare_qat", mnn=False)
def train_quant(
    module: Any, quant_bits: int = 8, scale_method: ScaleMethod = "moving_average", momentum: float = 0.99
) -> Module:
    """Makes all convolutions and linear layers of a module compute with rounded weights and inputs, for training.

    Weights have `quant_bits` bits, each output channel with a scale of its own; inputs have 8, with a scale and a zero
    point of the layer. What `expr.save` writes of it in use (`train(False)`) has these scales.

    Args:
        module: a module; its parts are replaced. A single layer is not changed itself.
        quant_bits: 2 to 8.
        scale_method: how the range of inputs is found in training: a moving average of batches, or all batches.
        momentum: share of the average that is kept in each step.

    Returns:
        The module, or what takes the place of a single layer.

    Raises:
        UsageError: an argument is wrong, or the module has no such layer.
    """
    if not isinstance(module, Module):
        raise UsageError(f"{type(module).__name__} is no module")
    if isinstance(quant_bits, bool) or not isinstance(quant_bits, int) or not 2 <= quant_bits <= 8:
        raise UsageError(f"quant_bits is {quant_bits!r}, not an integer from 2 to 8")
    if scale_method not in get_args(ScaleMethod):
        raise UsageError(f"scale_method is {scale_method!r}", hint=" or ".join(get_args(ScaleMethod)))
    if isinstance(momentum, bool) or not isinstance(momentum, (int, float)) or not 0 <= momentum < 1:
        raise UsageError(f"momentum is {momentum!r}, not a number from 0 to below 1")
    if isinstance(module, (Convolution, Linear)):
        return QuantizedLayer(module, quant_bits, scale_method, momentum)
    found = 0
    for part in list(module.modules()):
        if isinstance(part, QuantizedLayer):
            continue
        for name, child in list(part._children.items()):
            if isinstance(child, (Convolution, Linear)):
                setattr(part, name, QuantizedLayer(child, quant_bits, scale_method, momentum))
                found += 1
    if not found:
        raise UsageError("the module has no convolution and no linear layer", hint="nn.conv and nn.linear make them")
    return module


@named("nn.compress", like="torch.ao.quantization.convert", mnn=False)
def finish(module: Any) -> Module:
    """Undoes `train_quant`: the layers are plain again, with the rounded weights.

    `minnow.quantize` makes integers of exactly these weights. Returns the module, or the layer itself.
    """
    if not isinstance(module, Module):
        raise UsageError(f"{type(module).__name__} is no module")
    if isinstance(module, QuantizedLayer):
        module.layer._vars["weight"].write(module._weight().read())
        return module.layer
    for part in list(module.modules()):
        for name, child in list(part._children.items()):
            if isinstance(child, QuantizedLayer):
                setattr(part, name, finish(child))
    return module
