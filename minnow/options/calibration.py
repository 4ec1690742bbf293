"""Options of a calibration: which numbers the tensors of a model have, and how these become integers of 8 bits."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from minnow.options.option import Options, option
from minnow.schema.errors import UsageError

Rounding = Literal["nearest", "fitted"]
Equalize = Literal["auto", "on", "off"]
Activations = Literal["auto", "int8", "int16"]
RangeMethod = Literal["auto", "minmax", "percentile", "mse", "kl", "admm"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CalibrationOptions(Options):
    """What is measured, and what becomes of it."""

    SECTION: ClassVar[str] = "Calibration"

    calibration: Any = option(
        "",
        "Typical inputs: a folder of pictures, .npy or .npz files, one such file, a function of your own that gives "
        "them (its code is run), or the .json file of MNN's mnnquant, whose keys stand for flags. Layers then compute "
        "with integers of 8 bits, whose ranges these inputs show. With --prune, and with --weights int7 to int2, they "
        "show how weights keep the outputs of layers instead.",
        metavar="FOLDER|FILE|FILE.py:FUNCTION",
        python="Or what can be iterated over and gives arrays by name, or arrays for a model with one input.",
    )
    synthetic: bool = option(
        False,
        "Calibrate with random inputs, where there are none: `--samples` of them. Real inputs give better results.",
    )
    preprocess: str = option(
        "",
        "How pictures become inputs, (pixel - mean) / std with pixels from 0 to 255: "
        "mean=123.7,116.3,103.5:std=58.4,57.1,57.4:order=bgr; by default mean=0:std=255:order=rgb. "
        "crop=0.875 uses that share of height and width, in the middle; size=224,224 is for dynamic inputs.",
        metavar="KEY=VALUE:...",
    )
    calibration_limit: int = option(
        512, "Largest number of inputs to calibrate with: the first ones, in the order of their names.", least=1
    )
    activation_method: RangeMethod = option(
        "auto",
        "How the range of a tensor is chosen: minmax, all numbers; percentile, most of them; mse, with the least "
        "squared error; kl, with the least change of the distribution; admm, scale and integers fitted in turns; auto, "
        "mse, unless percentile or minmax leaves the outputs clearly nearer to those of the float model.",
    )
    activations: Activations = option(
        "auto",
        "Integers of what layers give, where no other layer reads it as it is: int8, which are fast; int16, which "
        "lose almost nothing (products are of 8 bits by 8 bits with all of them); auto, int8, but int16 where that "
        "halves the squared error of the outputs, or if the loss is above --max-drop otherwise.",
    )
    percentile: float = option(
        99.99, "For the method percentile: how many of 100 numbers lie within the range.", above=0, most=100
    )

    bias_correction: bool = option(
        True, "Change biases so that the error of the weights leaves the mean of each channel as it was."
    )

    rounding: Rounding = option(
        "nearest",
        "Which integer a weight becomes: nearest; fitted, so that the outputs of a layer stay near (GPTQ, then each "
        "weight in turn), which takes longer and helps where weights, not tensors, lose the most. With a calibration "
        "and --weights int7 to int2 they are always fitted.",
    )
    equalize: Equalize = option(
        "auto",
        "Give the channels between two layers ranges that are alike, without changing what the layers compute "
        "together: auto, if the outputs are nearer to those of the float model then.",
    )

    @property
    def is_calibrated(self) -> bool:
        """Whether tensors become integers."""
        given = self.calibration
        return self.synthetic or (given is not None and not (isinstance(given, str) and not given))

    def check_calibration(self) -> None:
        """Raises UsageError for options that contradict each other."""
        parsed_preprocess(self.preprocess)
        if self.synthetic and not (isinstance(self.calibration, str) and not self.calibration):
            raise UsageError("calibration and synthetic are two sources of inputs", hint="give one of them")
        changed = self.changed()
        given = [f.name for f in fields(CalibrationOptions) if f.name in changed]
        if given and not self.is_calibrated:
            hint = "`--calibration FOLDER`, or `--synthetic` for random inputs"
            raise UsageError(f"{given[0]} is for a calibration, which is not given", hint=hint)


@dataclass(frozen=True)
class Preprocess:
    """How the pixels of a picture, 0 to 255, become numbers: (pixel - mean) / std, for each channel.

    Attributes:
        mean, std: one number, or one for each of 3 channels.
        order: of the channels, "rgb" or "bgr".
        crop: shares of height and width, in the middle, that are used.
        size: height and width of a dynamic input; () are those of the picture.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (255.0,)
    order: str = "rgb"
    crop: tuple[float, ...] = (1.0, 1.0)
    size: tuple[int, ...] = ()


_NUMBERS: dict[str, Callable[[tuple[float, ...]], bool]] = {
    "mean": lambda given: len(given) in (1, 3),
    "std": lambda given: len(given) in (1, 3) and 0.0 not in given,
    "crop": lambda given: len(given) <= 2 and all(0 < n <= 1 for n in given),
    "size": lambda given: len(given) == 2 and all(1 <= n <= 1 << 16 and n == int(n) for n in given),
}
"""Of the keys with numbers, whether some will do."""


def parsed_preprocess(text: str) -> Preprocess:
    """What `preprocess` says. Raises UsageError for what cannot be read."""
    found: dict[str, Any] = {}
    hint = "such as mean=123.7,116.3,103.5:std=58.4,57.1,57.4:order=bgr"
    for part in filter(None, text.split(":")):
        key, _, value = part.partition("=")
        key = key.strip()
        if key == "order" and value.strip() in ("rgb", "bgr"):
            found[key] = value.strip()
            continue
        try:
            numbers = tuple(float(n) for n in value.split(","))
        except ValueError:
            numbers = ()
        check = _NUMBERS.get(key)
        if check is None or not numbers or any(n != n or abs(n) == float("inf") for n in numbers) or not check(numbers):
            raise UsageError(f"preprocess has '{part}'", hint=hint)
        if key == "crop":
            numbers = (numbers * 2)[:2]
        found[key] = tuple(map(int, numbers)) if key == "size" else numbers
    return Preprocess(**found)
