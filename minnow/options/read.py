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
    """Shapes and element types of graph inputs."""

    SECTION: ClassVar[str] = "Reading the model"

    inputs: Any = option(
        None,
        "Shape of a graph input with dynamic dimensions; with an element type if the model declares none: "
        "NAME=int64[1,128].",
        python="A mapping by name ({'x': ...}) or a list by position. A shape such as (1, 3, 224, 224) fixes or "
        "replaces the one in the file; '?' leaves a dimension unchanged, and a symbol that gets a number gets it in "
        "every input. ('int64', (1, 128)) or a `TensorInfo` also has an element type, which TorchScript files do not "
        "declare; for other files it must be the declared one. An array, or what numpy converts to one, gives shape, "
        "element type, and the values to verify with.",
        flags=("--input",),
        metavar="NAME=1x3x...",
        repeated=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrustOptions(Options):
    """Whether code in a model file may run."""

    SECTION: ClassVar[str] = "Reading the model"

    trust: bool = option(
        False,
        "Allow code in the model file to run: a TorchScript program, whose outputs are compared with.",
        python="PyTorch runs the program, and the methods that restore its objects. Otherwise the outputs are compared "
        "with those of the reference implementation. A module or program of this process is always trusted.",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SourceOptions(TrustOptions):
    """How a model file is opened."""

    SECTION: ClassVar[str] = "Reading the model"

    weights: Path = option(
        "",
        "The other file of a source in two files: Caffe's .caffemodel, or its .prototxt; by default the one beside the "
        "source.",
        flags=("--weights", "--prototxt"),
        metavar="PATH",
        names_files=True,
    )
    prototxt: Path = option("", "Another name for `weights`.", only_python=True, names_files=True)

    @property
    def companion(self) -> str:
        """The path of the source's other file, "" for none. Raises UsageError if its two names give different ones."""
        if self.weights and self.prototxt and os.fspath(self.weights) != os.fspath(self.prototxt):
            raise UsageError(
                "weights and prototxt are two names of one option, but have different values",
                hint="the source is one of two files; give the other one",
            )
        return os.fspath(self.weights or self.prototxt or "")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InspectCommand(InputOptions, SourceOptions):
    """The flags of `mnnconvert inspect`."""

    SECTION: ClassVar[str] = "Devices"

    placement: str = option(
        "",
        "Show on which of these devices, such as cpu,opencl, each node would run and why; the model is not run. It can "
        "be all that --device of mnnconvert run can be.",
        metavar="DEVICES",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GraphOptions(InputOptions):
    """Which graph of a source model is read, and how."""

    framework: str | None = option(
        None, "Format of the source; by default detected from its content.", flags=("-f", "--framework")
    )
    batch: int | None = option(None, "Size of the first dynamic dimension of each graph input, such as N.", least=0)
    signature: str = option(
        "", "Entry point of a source with several, such as serving_default; by default the only or first one."
    )
    cut_inputs: Sequence[str] = option(
        (),
        "Tensors that become the graph inputs; the nodes before them are omitted.",
        flags=("--inputs",),
        metavar="NAME,...",
    )
    cut_outputs: Sequence[str] = option(
        (),
        "Tensors that become the graph outputs; the nodes after them are omitted.",
        flags=("--outputs",),
        metavar="NAME,...",
    )
    custom_ops: bool = option(
        False,
        "Keep unknown operators of ONNX models by name, for another runtime with a plugin for them. Minnow's engine "
        "refuses such a file, so it is not verified: for this engine there is --op-plugin.",
    )
    op_plugins: Sequence[str] = option(
        (),
        "Python files with ops of your own and what they are in source models: their code is run. The engine needs "
        "a library with the same ops, which MINNOW_PLUGINS names.",
        flags=("--op-plugin",),
        metavar="FILE,...",
        names_files=True,
    )
    dequantize: bool = option(False, "Convert a quantized model to float; graph inputs and outputs keep their types.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReadOptions(GraphOptions, SourceOptions):
    """How a source model is read."""

    def for_reader(self) -> dict[str, Any]:
        """The keyword arguments of `minnow.converter.read`, except for the file and its format."""
        apart = {"framework", "prototxt"}
        names = [f.name for f in fields(ReadOptions) if f.name not in apart]
        return {**{name: getattr(self, name) for name in names}, "weights": self.companion}
