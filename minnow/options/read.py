"""How a source model is read."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from minnow.options.option import Options, option
from minnow.schema.errors import UsageError

Path = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InputOptions(Options):
    """What is said of the graph inputs."""

    SECTION: ClassVar[str] = "Reading the model"

    inputs: Any = option(
        None,
        "Shape of a graph input with dynamic dimensions; with an element type where the model has none: "
        "NAME=int64[1,128].",
        python="By name ({'x': ...}) or, as a list, by position. A shape, (1, 3, 224, 224), fixes or replaces that in "
        "the file; '?' leaves a dimension as it is, and a symbol that becomes a number does so in every input. "
        "('int64', (1, 128)) or a `TensorInfo` also gives the element type, which TorchScript files do not hold, and "
        "which must be the one of the file otherwise. An array, of numpy or anything that numpy can make one of, gives "
        "shape, element type, and the numbers to compare on.",
        flags=("--input",),
        metavar="NAME=1x3x...",
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SourceOptions(Options):
    """What a model file is opened with."""

    SECTION: ClassVar[str] = "Reading the model"

    weights: Path = option(
        "",
        "The companion file of a source that consists of two: Caffe's .caffemodel, or its .prototxt; by default what "
        "lies beside the source.",
        flags=("--weights", "--prototxt"),
        metavar="PATH",
    )
    prototxt: Path = option("", "Another name for `weights`.", only_python=True)
    trust: bool = option(
        False,
        "Let code of the model file run: a TorchScript program, to compare with it.",
        python="PyTorch runs such a program, and the methods that restore its objects; without it the program is "
        "compared as it was read. A module or program of this process is the caller's own.",
    )

    @property
    def companion(self) -> str:
        """The path of the source's other file, "" for none. Raises UsageError where its two names say two."""
        if self.weights and self.prototxt and os.fspath(self.weights) != os.fspath(self.prototxt):
            raise UsageError(
                "weights and prototxt are two names of one option: the companion file of a source that is two",
                hint="the source is one of the two files; name the other one",
            )
        return os.fspath(self.weights or self.prototxt or "")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions(InputOptions, SourceOptions):
    """How a source model is read."""

    framework: str | None = option(
        None, "Format of the source; by default recognized by its content.", flags=("-f", "--framework")
    )
    batch: int | None = option(None, "Number for the first dynamic dimension of each graph input, such as N.", least=0)
    signature: str = option(
        "", "Entry point of a source that has several (serving_default); by default the only or first one."
    )
    cut_inputs: Sequence[str] = option(
        (),
        "Names of tensors that become the graph inputs; what comes before them is left out.",
        flags=("--inputs",),
        metavar="NAME,...",
    )
    cut_outputs: Sequence[str] = option(
        (),
        "Names of tensors that become the graph outputs; what comes after them is left out.",
        flags=("--outputs",),
        metavar="NAME,...",
    )
    dequantize: bool = option(
        False, "Compute in float what the source computes with integers; graph inputs and outputs keep their types."
    )

    def for_reader(self) -> dict[str, Any]:
        """What `minnow.converter.read` takes besides the file and its format."""
        apart = {"framework", "prototxt"}
        names = [f.name for f in fields(ReadOptions) if f.name not in apart]
        return {**{name: getattr(self, name) for name in names}, "weights": self.companion}
