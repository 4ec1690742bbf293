"""Replaces the weights of a model by smaller ones: a stage after all others, of which no numbers are left to fold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from minnow.optimizer.layout.product import to_convolution
from minnow.optimizer.passes.legalize.after import legalize_epilogue
from minnow.optimizer.quantize.arithmetic import HALF_MOST, Codes, Method, fits_half, quantized
from minnow.optimizer.quantize.expand import expand, look_up
from minnow.optimizer.quantize.layers import (
    FORMS,
    Layer,
    Names,
    fits,
    is_operand,
    layers_of,
    matches,
    matrix_of_known,
    names_of,
)
from minnow.optimizer.quantize.prune import Prune, can_prune, pruned
from minnow.optimizer.quantize.rounding import fitted_codes
from minnow.optimizer.quantize.seen import Seen, by_output, takes_bias
from minnow.optimizer.quantize.sensitivity import in_groups, output_error, relative
from minnow.optimizer.rewrite import apply_groups, rules
from minnow.optimizer.rewrite.trace import Trace
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Blob, DType, Graph, Model, Node, QuantizedBlob, RoundedBlob, SparseBlob, Value
from minnow.schema.ir.compressed import stored_bytes
from minnow.schema.ir.graph import RET
from minnow.schema.ops import Builder, Trait, get

Array = npt.NDArray[Any]
Width = Literal[0, 2, 3, 4, 5, 6, 7, 8, 16, -16, 32]
"""Bits of a weight: 16 is float16, -16 bfloat16, 0 the float that it is, 32 a float32 that is 0 if it is pruned."""

FLOAT: Width = 0
HALF: Width = 16
BRAIN: Width = -16
PRUNED: Width = 32


@dataclass(frozen=True)
class Recipe:
    """How weights are made small.

    Attributes:
        width: of the layers that `widths` does not name.
        widths: of layers, by name.
        block: input channels with one scale; 0: one scale for each output channel.
        symmetric: around 0, instead of from the least to the largest weight.
        method: how scales are chosen.
        half_scales: scales are float16.
        exclude: patterns of layers that stay as they are.
        products, others: whether matrix products with a constant, and tables and all others, are among the layers.
        constants: other constants of so many elements are stored in float16, too; 0: none.
        for_mnn: files of the target `mnn`.
        prune: which weights become 0 together; "": none do.
        sparsity: the share of the weights of a layer that become 0.
        layers: for single layers by name what differs: fields of this class.
    """

    width: Width = 8
    widths: Mapping[str, Width] = field(default_factory=dict)
    block: int = 0
    symmetric: bool = False
    method: Method = "rtn"
    half_scales: bool = False
    exclude: Sequence[str] = ()
    products: bool = True
    others: bool = True
    constants: int = 0
    for_mnn: bool = True
    prune: Prune | Literal[""] = ""
    sparsity: float = 0.0
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, name: str) -> Recipe:
        """What holds for a layer."""
        own = dict(self.layers.get(name, {}))
        if name in self.widths:
            own["width"] = self.widths[name]
        return replace(self, **own) if own else self


@dataclass
class LayerResult:
    """What became of a layer.

    Attributes:
        name, op, shape: of the layer.
        bits: of a weight; 16 for float16 and bfloat16, 32 for float32.
        kind: "int", "f16", "bf16" or "f32".
        block: input channels with one scale; 0: one for each output channel.
        method, symmetric: how it was quantized; "" and False if it is float.
        rounding: "fitted" if its integers were chosen by the outputs of the layer.
        scale_bits: of a scale.
        form: how the file has it, in words.
        error: relative error of the weights: the norm of the differences divided by that of the weights.
        output_error: the same of the layer's output, of fitted layers for the inputs of the calibration, of others if
            the input channels were independent; None if it was not run.
        before, after: bytes of the weights, with their scales.
        why: the reason for the choice, or for what was not done.
        density: the share of the weights that are not 0, where the layer was pruned; else 1.
        sqnr_db: power of the weights divided by that of their error, in dB; None without an error.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    bits: int
    kind: str
    block: int = 0
    method: str = ""
    symmetric: bool = False
    rounding: str = "nearest"
    scale_bits: int = 0
    form: str = ""
    error: float = 0.0
    output_error: float | None = None
    before: int = 0
    after: int = 0
    why: str = ""
    density: float = 1.0
    sqnr_db: float | None = None


class Compressor:
    """The layers of a model, and their weights in each width, computed once.

    Args:
        model: optimized; it is not changed.
        recipe: how.
        names: of the nodes in the source, to find the layers of the recipe.

    Attributes:
        layers: those that are not left out, in order.
        kept: why other layers stay float, by name.
        fitted: weights of layers that were pruned with the help of their inputs, by name, in the order of their groups.
        shifts: what is added to the biases of these layers, and of those that `round_by_outputs` was called for.
    """

    def __init__(self, model: Model, recipe: Recipe, names: Names = MappingProxyType({})) -> None:
        self.model = model.clone()
        self.recipe = recipe
        if not recipe.for_mnn:
            _split(self.model.graph)
        self.kept: dict[str, str] = {}
        self.layers: list[Layer] = []
        self._all = layers_of(self.model.graph)
        self._made: dict[tuple[Any, ...], QuantizedBlob | SparseBlob | None] = {}
        self._rounded: dict[tuple[str, Width], tuple[QuantizedBlob, float]] = {}
        self.fitted: dict[str, Array] = {}
        self.shifts: dict[str, Array] = {}
        self.unused = tuple(p for p in recipe.exclude if not any(matches(layer, p) for layer in self._all))
        self._resolve(names)
        for layer in self._all:
            if why := self._left_out(layer):
                self.kept[layer.name] = why
            else:
                self.layers.append(layer)

    def _resolve(self, names: Names) -> None:
        """What holds for single layers, by the names that they have here."""
        given = self.recipe.layers
        named = {layer.name: next((n for n in names_of(layer, names) if n in given), None) for layer in self._all}
        self.unused += tuple(name for name in given if name not in named.values())
        self.recipe = replace(self.recipe, layers={name: given[n] for name, n in named.items() if n is not None})

    def _left_out(self, layer: Layer) -> str:
        recipe = self.recipe
        if found := next((p for p in recipe.exclude if matches(layer, p)), None):
            return f"left out by '{found}'"
        if layer.form == "product" and not recipe.products:
            return "a product with a constant that is no convolution"
        if layer.form in ("table", "expanded") and not recipe.others:
            return "the format compresses the weights of convolutions only"
        if recipe.of(layer.name).width == PRUNED and not can_prune(layer):
            return "only convolutions of more than 4 input channels and products with a constant are pruned"
        if layer.form == "expanded" and recipe.for_mnn and not is_operand(layer):
            return "the format has its weights in another order, as float constants"
        if not np.isfinite(layer.numbers()).all():
            return "its weights have NaN or infinity"
        return ""

    def blob(self, layer: Layer, width: Width) -> Blob | None:
        """The weights of a layer in a width, [groups...] in the order of their groups; None: as they are."""
        own = self.recipe.of(layer.name)
        if width == FLOAT:
            return None
        if width in (HALF, BRAIN):
            assert layer.value.data is not None
            if layer.value.type.dtype is not DType.F32:
                return None
            if width == HALF and float(np.abs(layer.numbers()).max(initial=0)) > HALF_MOST:
                return None
            return RoundedBlob(layer.value.data, DType.F16 if width == HALF else DType.BF16)
        if width == PRUNED:
            key: tuple[Any, ...] = (layer.name, PRUNED)
            if key not in self._made:
                self._made[key] = self._sparse(layer)
            return self._made[key]
        if (layer.name, width) in self._rounded:
            return self._rounded[layer.name, width][0]
        bits = layer.widths(int(width))
        order = (layer.form, layer.turned, layer.groups(own.block))
        key = (id(layer.value.data), order, bits, own.symmetric, own.method, own.half_scales)
        if own.prune:
            key = (layer.name, *key)  # each layer has weights of its own
        if key not in self._made:
            self._made[key] = self._quantized(layer, bits, own)
        return self._made[key]

    def _sparse(self, layer: Layer) -> SparseBlob | None:
        one_group = int(layer.node.attrs.get("group", 1)) == 1  # MNN's runtime reads lists of others wrongly
        made = SparseBlob(self._pruned(layer)) if can_prune(layer) and one_group else None
        return made if made is not None and made.packed_bytes < layer.float_bytes else None

    def _pruned(self, layer: Layer) -> Array:
        """The weights of a layer, in the order of their groups, and 0 where they are pruned."""
        own = self.recipe.of(layer.name)
        if not own.prune or not can_prune(layer):
            return layer.numbers()
        found = self.fitted.get(layer.name)
        return pruned(layer, own.prune, own.sparsity) if found is None else found

    def _quantized(self, layer: Layer, bits: int, own: Recipe) -> QuantizedBlob | None:
        rows = self._pruned(layer).reshape(layer.groups(own.block))
        # Only integers around 0 have 0 itself.
        symmetric = (own.symmetric or bool(own.prune)) and own.method != "hqq"
        half = own.half_scales and fits_half(rows, bits, symmetric)
        found = quantized(rows, bits, symmetric, half, own.method)
        made = QuantizedBlob(found.codes, bits, found.scale, found.low, layer.stored_shape, bool(own.prune))
        return made if made.packed_bytes < layer.float_bytes else None

    def round_by_outputs(self, layer: Layer, width: Width, seen: Seen, grows: bool = True) -> None:
        """Rounds the weights of a layer so that its outputs stay near, if it has integers in this width.

        Args:
            layer: one of `layers`.
            width: for which `blob` gives the integers from now on.
            seen: the inputs of the layer.
            grows: a layer without a bias may get one.
        """
        made = self.blob(layer, width)
        if not isinstance(made, QuantizedBlob):
            return
        bias = takes_bias(layer) and (grows or layer.node.has_input(2))
        own = seen.centered if bias else seen  # what the mean of the inputs makes of the error is taken from the bias
        matrix = by_output(layer, layer.numbers())
        wanted = own.adapted(matrix)
        found = fitted_codes(Codes(made.codes, made.scale, made.low), wanted, made.bits, own.squares)
        rounded = QuantizedBlob(found.codes, made.bits, found.scale, found.low, layer.stored_shape)
        got = by_output(layer, rounded.numpy())
        self._rounded[layer.name, width] = rounded, own.error(wanted, got)
        if bias:
            self.shifts[layer.name] = seen.shift(matrix, got)

    def bytes(self, layer: Layer, width: Width) -> int:
        """Bytes of the weights of a layer in a width."""
        made = self.blob(layer, width)
        return layer.float_bytes if made is None else stored_bytes(made)

    def numbers(self, layer: Layer, width: Width) -> Array:
        """The weights of a layer in a width, in the order of their groups."""
        made = self.blob(layer, width)
        if made is None:
            return layer.numbers()
        return made.numpy() if isinstance(made, (QuantizedBlob, SparseBlob)) else in_groups(layer, made.numpy())

    def apply(
        self, widths: Mapping[str, Width] | None = None, moments: Mapping[str, Array] = MappingProxyType({})
    ) -> tuple[Model, list[LayerResult]]:
        """A model with smaller weights, and what became of each layer.

        Args:
            widths: by the name of a layer; by default those of the recipe.
            moments: the mean square of each input channel, by the name of the layer, where it is known.
        """
        model = self.model.clone()
        results = []
        for own, layer in zip(self._all, layers_of(model.graph), strict=True):
            width: Width = FLOAT
            if own.name not in self.kept:
                width = self.recipe.of(own.name).width if widths is None else widths[own.name]
            made = self.blob(own, width)
            results.append(self._result(own, width, made, moments.get(own.name)))
            if made is not None:
                if own.name in self.shifts and width in (PRUNED, *range(2, 9)):
                    _shift(layer.node, self.shifts[own.name])
                self._put(layer, made)
        if self.recipe.constants:
            _round_constants(model.graph, self.recipe.constants)
        return model, results

    def _put(self, layer: Layer, made: Blob) -> None:
        node, name = layer.node, layer.value.name
        assert node.graph is not None
        if isinstance(made, SparseBlob) and layer.form == "product":
            weights: Blob = SparseBlob(made.numpy().reshape(*made.shape, 1, 1))
            to_convolution(node, matrix_of_known(node), weights, self.recipe.for_mnn)
            return
        if not isinstance(made, QuantizedBlob) or layer.form == "stream":
            node.set_input(layer.operand, Value.constant(made, name))
            return
        b = Builder(node.graph, node, f"{node.origin} > quantize")
        if layer.form == "product":
            weights = QuantizedBlob(made.codes, made.bits, made.scale, made.low, (*made.shape, 1, 1))
            to_convolution(node, matrix_of_known(node), weights, self.recipe.for_mnn)
        elif layer.form == "table" and not self.recipe.for_mnn:
            node.set_input(layer.operand, Value.constant(made, name))  # the file has a form for it
        elif layer.form == "table":
            rows = _as(b, look_up(b, node, made, name), node.output.type.dtype)
            rows.name = node.output.name
            node.output.name = ""
            node.output.replace_all_uses(rows)
            node.graph.erase(node)
        else:
            node.set_input(layer.operand, _as(b, expand(b, made, name), layer.value.type.dtype))

    def _result(self, layer: Layer, width: Width, made: Blob | None, moment: Array | None) -> LayerResult:
        own = self.recipe.of(layer.name)
        result = LayerResult(
            layer.name,
            layer.node.op,
            layer.shape,
            8 * layer.value.type.dtype.size,
            layer.value.type.dtype.value,
            before=layer.float_bytes,
            after=layer.float_bytes,
            why=self.kept.get(layer.name, ""),
        )
        if made is None:
            result.why = result.why or _why_float(width)
            return result
        result.after = stored_bytes(made)
        want, got = layer.numbers(), self.numbers(layer, width)
        result.error = relative(want, got)
        result.sqnr_db = -20 * math.log10(result.error) if result.error > 0 else None
        if own.prune and can_prune(layer):
            result.density = float(np.count_nonzero(got)) / got.size
        if moment is not None:
            result.output_error = output_error(layer, want, got, moment)
        if isinstance(made, RoundedBlob):
            result.bits, result.kind = 16, made.stored.value
            return result
        if isinstance(made, SparseBlob):
            result.kind, result.bits, result.form = "f32", 32, FORMS[layer.form]
            return result
        assert isinstance(made, QuantizedBlob)
        wanted_block = own.block
        groups = layer.groups(wanted_block)
        blocked = groups != layer.groups(0) or (wanted_block > 0 and fits(wanted_block, groups[1]))
        result.bits, result.kind, result.form = made.bits, "int", FORMS[layer.form]
        result.block = wanted_block if blocked else 0
        result.method, result.symmetric = own.method, made.low is None
        if (layer.name, width) in self._rounded:
            result.rounding, result.output_error = "fitted", self._rounded[layer.name, width][1]
        result.scale_bits = 8 * made.scale.dtype.itemsize
        notes = []
        if wanted_block and not blocked:
            notes.append(f"no blocks of {wanted_block}: one scale for each output channel")
        if own.half_scales and result.scale_bits == 32:
            notes.append("scales in 32 bits: they are beyond the range of float16")
        if made.bits != width:
            notes.append(f"{made.bits} bits: packed bytes hold codes of 2, 4 or 8")
        result.why = "; ".join(notes)
        return result


def _shift(node: Node, shift: Array) -> None:
    """Adds numbers to the bias of a layer."""
    while len(node.inputs) < 3:
        node.append_input(None)
    name, bias = "", shift
    if node.has_input(2):
        name, bias = node.input(2).name, np.asarray(node.input(2).array, np.float32) + shift
    node.set_input(2, Value.constant(bias.astype(np.float32), name))


def _as(b: Builder, value: Value, dtype: DType) -> Value:
    made: Value = value if value.type.dtype is dtype else b.Cast(value, to=dtype)
    return made


def _why_float(width: Width) -> str:
    if width == FLOAT:
        return ""
    if width == PRUNED:
        return "the format has no form without zeros for it that is smaller"
    if width == HALF:
        return "float16 does not have its largest weight"
    return "not smaller with its scales"


def _split(graph: Graph) -> None:
    """Residuals and activations of layers become nodes behind them: the weights of the rest have the format's form."""
    apply_groups(graph, [[rules[legalize_epilogue.name]]], Trace())


def _round_constants(graph: Graph, least: int) -> None:
    """Stores constants of float32 as float16 where that has their numbers."""
    made: dict[int, Blob] = {}
    for part in graph.walk():
        for value in part.constants():
            blob = value.data
            if (
                blob is None
                or isinstance(blob, (RoundedBlob, QuantizedBlob, SparseBlob))
                or not _may_round(value, least)
            ):
                continue
            if id(blob) not in made:
                size = np.abs(np.asarray(blob.numpy(), np.float32))
                fits_range = bool(np.isfinite(size).all()) and float(size.max(initial=0)) <= HALF_MOST
                made[id(blob)] = RoundedBlob(blob, DType.F16) if fits_range else blob
            value.data = made[id(blob)]


def _may_round(value: Value, least: int) -> bool:
    if value.type.dtype is not DType.F32 or value.type.count is None or value.type.count < least:
        return False
    return not any(n.op == RET or Trait.EXACT_TYPES in get(n.op).traits for n, _ in value.uses)


def check_compressible(compressor: Compressor, model: Model) -> None:
    """Raises UnsupportedError if there is nothing to quantize."""
    if compressor.layers:
        return
    if compressor.kept:
        raise UnsupportedError(
            "all weights of the model are left out of quantization",
            items=[f"{name}: {why}" for name, why in compressor.kept.items()],
            hint="`--exclude` fewer layers",
        )
    compressed = any(type(v.data).__name__ in ("PackedBlob", "QuantizedBlob") for v in model.graph.constants())
    raw = any(node.op == "Raw" for part in model.graph.walk() for node in part)
    are_integers = compressed or raw or _has_integers(model)
    hint = "quantize the float model that it was made of"
    if model.source == "tflite":
        hint += ", or make floats of its integers first, with `--dequantize`"
    raise UnsupportedError(
        "the model has no float weights to quantize",
        why="its weights are quantized already" if are_integers else "no layer has a constant matrix",
        hint=hint if are_integers else "",
    )


def _has_integers(model: Model) -> bool:
    """Whether a node multiplies by constant integers of 8 bits."""
    values = (v for part in model.graph.walk() for node in part for v in node.inputs if v is not None)
    return any(v.data is not None and v.type.dtype in (DType.I8, DType.U8) and (v.type.rank or 0) > 1 for v in values)
