"""Options of quantization: how weights are made smaller, and what the result may cost."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from minnow.options.calibration import CalibrationOptions
from minnow.options.convert import ConvertOptions, ModuleOptions, WrittenOptions
from minnow.options.option import option
from minnow.options.prune import PruneOptions
from minnow.options.read import GraphOptions, Path, TrustOptions
from minnow.schema.errors import UsageError

Weights = Literal["fp16", "bf16", "int8", "int7", "int6", "int5", "int4", "int3", "int2"]
Method = Literal["rtn", "mse", "hqq"]

FEW_BITS: tuple[Weights, ...] = ("int7", "int6", "int5", "int4", "int3", "int2")
"""Weights for which no layer computes with integers; a calibration shows how to round them."""

_UNITS = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WeightOptions(PruneOptions):
    """How weights are stored."""

    SECTION: ClassVar[str] = "Quantization"

    weights: Weights | None = option(
        None,
        "Element type of the weights; by default int8, and with --max-size or --max-drop each layer has its own, "
        "down to int2.",
        python="With `max_size` or `max_drop` no layer has fewer bits than `weights`.",
    )
    block: str = option(
        "channel",
        "Weights with one scale: those of an output channel, or of so many input channels of one, a multiple of 16.",
        metavar="channel|N",
        python="Where the input channels are no multiple of it, an output channel has one scale.",
    )
    symmetric: bool = option(
        False,
        "Integers around 0 without an offset, instead of from the least to the largest weight.",
        flags=("--symmetric/--asymmetric",),
    )
    method: Method = option(
        "mse",
        "How scales are chosen: rtn, from the least to the largest weight; mse, with the least squared error; hqq, "
        "with most errors small (half-quadratic quantization).",
    )
    scale_bits: int = option(32, "Bits of a scale: 32 or 16.", least=16, most=32)
    exclude: Any = option(
        (),
        "Layers that stay float: a name or an op, with * and ? for any text and any character.",
        python="A list of patterns, which are compared with the names of layers, of their outputs and weights, and "
        "with the names of ops.",
        metavar="PATTERN",
        repeated=True,
    )
    max_size: str = option(
        "",
        "Largest file, such as 12MB: the weights get the bits with the least error that fits; exit code 5 if none do.",
        metavar="SIZE",
    )
    max_drop: str = option(
        "",
        "Largest loss, such as 0.5%, of the similarity of the outputs to those of the float model, or of --metric: the "
        "weights get the fewest bits within it; exit code 5 if none do.",
        metavar="DROP",
        python="The similarity is the cosine, the smallest of all outputs. A number without % is a difference.",
    )
    metric: Path = option(
        "",
        "Function of your own that measures a model, such as accuracy; it gets a `minnow.Session`, and returns a "
        "number, larger being better. Its code is run.",
        metavar="FILE.py:FUNCTION",
    )
    samples: int = option(4, "Number of random inputs to measure with, where no --data is given.", least=1)
    measure: bool = option(
        True, "Measure latency and memory before and after, in turns. With --no-measure the same files give the same "
        "report."
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale_bits not in (16, 32):
            raise UsageError(f"scale_bits is {self.scale_bits}", hint="16 or 32")
        self.block_size()
        if self.method == "hqq" and self.symmetric:
            raise UsageError(
                "hqq is asymmetric: it chooses the offset", hint="omit `--symmetric`, or use `--method mse`"
            )
        if self.prune and (self.weights in ("fp16", "bf16") or self.block_size() or self.method == "hqq"):
            raise UsageError(
                "pruned weights are float32, or integers around 0 with a scale for each output channel",
                hint="omit `--weights fp16`, `--weights bf16`, `--block` and `--method hqq`",
            )
        if self.weights in ("fp16", "bf16"):
            scaled = {"block": self.block_size(), "symmetric": self.symmetric, "method": self.method != "mse",
                      "scale_bits": self.scale_bits != 32}  # fmt: skip
            if wrong := [name for name, is_set in scaled.items() if is_set]:
                raise UsageError(
                    f"{wrong[0]} is for weights of integers, but the weights are {self.weights}",
                    hint=f"omit it: a weight of {self.weights} has no scale",
                )
        if self.max_size:
            parsed_size(self.max_size)
        if self.max_drop:
            parsed_drop(self.max_drop)
        given = [name for name in ("max_size", "max_drop") if getattr(self, name)]
        if given and self.weights in ("fp16", "bf16"):
            raise UsageError(
                f"{given[0]} chooses among integers, but the weights are {self.weights}",
                hint="`--weights int4` for at least 4 bits, or omit it",
            )
        if self.metric and not self.max_drop:
            raise UsageError("metric is for max_drop, which is not given", hint="`--max-drop 0.5%`, for example")

    def block_size(self) -> int:
        """Input channels with one scale; 0 for all. Raises UsageError for what is none."""
        text = str(self.block)
        if text == "channel":
            return 0
        if not text.isdecimal() or int(text) < 16 or int(text) % 16:
            hint = "channel, or a multiple of 16 such as 32, 64 or 128: the blocks that the format has"
            raise UsageError(f"block is '{text}'", hint=hint)
        return int(text)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantizeOptions(WeightOptions, CalibrationOptions, WrittenOptions, GraphOptions, TrustOptions, ModuleOptions):
    """The arguments of `minnow.quantize`, and the flags of `mnnconvert quantize`."""

    SECTION: ClassVar[str] = "Reading the model"

    prototxt: Path = option(
        "", "The other file of a Caffe model; by default the one beside the source.", names_files=True, metavar="PATH"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_calibration()
        if self.prune:
            of_integers = ("activation_method", "activations", "percentile", "bias_correction", "rounding", "equalize")
            if wrong := [name for name in of_integers if name in self.changed()]:
                hint = (
                    "with `--prune` a calibration shows how layers keep their outputs: nothing becomes integers by it"
                )
                raise UsageError(f"{wrong[0]} is for layers that compute with integers", hint=hint)
        if self.is_calibrated and not self.prune and not self.has_integers:
            of_tensors = ("activation_method", "activations", "percentile", "bias_correction", "equalize")
            if wrong := [name for name in of_tensors if name in self.changed()]:
                hint = f"with `--weights {self.weights}` a calibration shows how to round weights: tensors stay float"
                raise UsageError(f"{wrong[0]} is for layers that compute with integers", hint=hint)
        if not self.has_integers:
            return
        other = {"weights": self.weights not in (None, "int8"), "block": self.block_size(), "max_size": self.max_size}
        if wrong := [name for name, is_set in other.items() if is_set]:
            hint = "with a calibration weights are int8, a scale for each output channel, or `--weights` of fewer bits"
            raise UsageError(f"{wrong[0]} is for weights alone, but there is a calibration", hint=hint)

    @property
    def has_integers(self) -> bool:
        """Whether layers compute with integers, instead of having smaller weights alone."""
        return self.is_calibrated and not self.prune and self.weights not in FEW_BITS

    def for_conversion(self, compression: Any) -> ConvertOptions:
        """The options of the conversion that is part of it."""
        own = {f.name for f in fields(ConvertOptions)} - {"weights", "compression", "prune", "sparsity"}
        shared = {f.name: getattr(self, f.name) for f in fields(self) if f.name in own}
        return ConvertOptions(**shared, compression=compression)


def parsed_size(text: str) -> int:
    """Bytes. Raises UsageError for what is no size."""
    number = text.rstrip("BKMGikTb ")
    unit = text[len(number) :].strip()
    try:
        found = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        raise UsageError(f"'{text}' is no size", hint="such as 12MB, 800kB, 11MiB or 12000000") from None
    if not 0 < found < 2**63:
        raise UsageError(f"'{text}' is no size", hint="such as 12MB: more than 0 bytes")
    return int(found)


def parsed_drop(text: str) -> tuple[float, bool]:
    """A loss, and whether it is a share of the float model's score. Raises UsageError for what is none."""
    share = text.strip().endswith("%")
    try:
        number = float(text.strip().rstrip("%"))
    except ValueError:
        raise UsageError(f"'{text}' is no loss", hint="such as 0.5% or 0.005") from None
    if not 0 <= number < float("inf"):
        raise UsageError(f"'{text}' is no loss", hint="such as 0.5% or 0.005: at least 0")
    return (number / 100 if share else number), share
