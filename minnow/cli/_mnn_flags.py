"""The flags of MNN's own converter, and what becomes of each: the options of the compatible command line, their help,
the table in the documentation, and the errors come from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from minnow.schema.errors import InternalError, UnsupportedError

Kind = Literal["switch", "yes", "whole", "number", "text", "path"]
State = Literal["carried out", "always", "no effect", "refused"]

STATES: dict[State, str] = {
    "carried out": "does the same",
    "always": "is accepted: every conversion does so",
    "no effect": "is accepted with a note: it does not change MNN's result either",
    "refused": "is refused: exit code 3",
}


@dataclass(frozen=True)
class MnnFlag:
    """A flag of MNN's converter.

    Attributes:
        name: with its capitals, without dashes.
        kind: switch, a flag without a value; yes, one with an optional 0 or 1; whole, number, text or path: its value.
        state: what becomes of it here; of a refused flag the value `default` is accepted.
        doc: what it does; for those that are not carried out, the reason, and what to use instead.
        default: of MNN's converter, as it is written on the command line.
        short: its short form.
        own: `mnnconvert convert` has a flag of this name, too, so that it does not tell a line for MNN's converter.
    """

    name: str
    kind: Kind
    state: State
    doc: str
    default: str = ""
    short: str = ""
    own: bool = False

    @property
    def key(self) -> str:
        """Its name as a parameter."""
        return f"mnn_{self.name}"


_FUSED = "It is for the ops of --transformerFuse."

MNN_FLAGS = {
    flag.name: flag
    for flag in (
        MnnFlag("help", "switch", "carried out", "Show this table.", short="h", own=True),
        MnnFlag("version", "switch", "carried out", "Print the version, of Minnow.", short="v", own=True),
        MnnFlag(
            "framework", "text", "carried out", "Format of the source: TF, CAFFE, ONNX, TFLITE, TORCH, MNN or JSON, in "
            "small letters, too.", short="f", own=True,
        ),
        MnnFlag("modelFile", "path", "carried out", "The source model."),
        MnnFlag("MNNModel", "path", "carried out", "The file to write."),
        MnnFlag("prototxt", "path", "carried out", "Caffe's description of the network.", own=True),
        MnnFlag(
            "JsonFile", "path", "carried out", "With -f MNN and without --MNNModel: write the model as JSON, with all "
            "digits (MNN: six decimals). Not for -f TFLITE.",
        ),
        MnnFlag("info", "switch", "carried out", "With -f MNN and without --MNNModel: inputs, outputs and version."),
        MnnFlag("OP", "switch", "carried out", "Print the operators of the format of -f."),
        MnnFlag(
            "batch", "whole", "carried out", "Size of the first dimension of each input, where it is dynamic.", own=True
        ),
        MnnFlag(
            "keepInputFormat", "yes", "carried out", "0: four-dimensional inputs and outputs of convolutions are in "
            "channel blocks (NC4HW4). Not for TF and TFLITE.", default="1",
        ),
        MnnFlag(
            "optimizeLevel", "whole", "carried out", "0: no optimization; 1 or 2: all that keep the result for every "
            "input (MNN's level 2 may change it).", default="1",
        ),
        MnnFlag(
            "optimizePrefer", "whole", "always", "Weights that several nodes share are in the file once, and constant: "
            "the smallest and the fastest form is the same.", default="0",
        ),
        MnnFlag(
            "fp16", "switch", "carried out", "Weights of convolutions, and constants, in float16, rounded to "
            "the nearest (MNN: towards zero).",
        ),
        MnnFlag("benchmarkModel", "switch", "no effect", "MNN's converter parses it, and writes the same file."),
        MnnFlag("bizCode", "text", "carried out", "Text to store in the file."),
        MnnFlag("debug", "switch", "no effect", "`--verbose` and `--log-file` show what a conversion does."),
        MnnFlag(
            "forTraining", "switch", "refused", "Files of Minnow are for inference: batch normalization becomes part "
            "of weights, and dropout is removed.",
        ),
        MnnFlag(
            "weightQuantBits", "whole", "carried out", "2 to 8: weights of convolutions, and of matrix products with a "
            "constant, in so many bits.", default="0",
        ),
        MnnFlag(
            "weightQuantAsymmetric", "yes", "carried out", "With --weightQuantBits: 1, from the least to the largest "
            "weight; 0, around zero.", default="1",
        ),
        MnnFlag(
            "weightQuantBlock", "whole", "carried out", "With --weightQuantBits: a scale for so many input channels, "
            "a multiple of 16 that divides their number; else one for each output channel.", default="-1",
        ),
        MnnFlag(
            "weightQuantScaleBit", "whole", "carried out", "With --weightQuantBits: scales in 32 or 16 bits.",
            default="32",
        ),
        MnnFlag(
            "hqq", "switch", "carried out", "With --weightQuantBits: offsets with which most errors are small "
            "(half-quadratic quantization).",
        ),
        MnnFlag(
            "splitBlockQuant", "switch", "refused", "A convolution with scales of blocks is one node; old runtimes do "
            "not read it.",
        ),
        MnnFlag(
            "compressionParamsFile", "path", "carried out", "Bits, block and asymmetry of single layers, as JSON or "
            "binary; a file that is not there is written with those of this conversion. Not pruning, and no integer "
            "activations.",
        ),
        MnnFlag(
            "saveStaticModel", "switch", "carried out", "Shapes are fixed, and movements of data are lists of copied "
            "regions. Dynamic dimensions need --inputConfigFile or --batch; refused with a list of nodes that have no "
            "such form here.",
        ),
        MnnFlag(
            "inputConfigFile", "path", "carried out", "Shapes of the inputs, for --saveStaticModel: lines "
            "`input_names = a,b` and `input_dims = 1x3x224x224,1x8`.",
        ),
        MnnFlag(
            "targetVersion", "number", "carried out", "Files are those of version 3.6; an older one is refused: exit "
            "code 3.", default="3.6",
        ),
        MnnFlag(
            "customOpLibs", "text", "refused", "Minnow loads no libraries into the converter. TorchScript is read "
            "without the code of its operators.",
        ),
        MnnFlag(
            "allowCustomOp", "switch", "carried out", "ONNX: an unknown operator becomes an op `Extra` of its name, "
            "with its attributes. Minnow's engine refuses it by name, so the file is not verified.",
        ),
        MnnFlag("authCode", "text", "carried out", "Text to store in the file (ExtraInfo.name)."),
        MnnFlag(
            "testdir", "path", "carried out", "Compare with the inputs and outputs in this folder: TEST_SUCCESS, or "
            "TESTERROR and exit code 4.",
        ),
        MnnFlag(
            "testconfig", "path", "carried out", "JSON for --testdir: mode (threads), precision, backend 0 (CPU); "
            "memory, power and hints are noted: they do not change results.",
        ),
        MnnFlag("thredhold", "number", "carried out", "Tolerance of --testdir.", default="0.01"),
        MnnFlag(
            "alignDenormalizedValue", "whole", "carried out", "1: numbers below 1.18e-38 in weights become 0.",
            default="1",
        ),
        MnnFlag(
            "detectSparseSpeedUp", "switch", "carried out", "Weights of convolutions that are mostly zeros are stored "
            "without these.",
        ),
        MnnFlag("saveExternalData", "switch", "carried out", "Large weights in a file beside the model, MODEL.weight."),
        MnnFlag(
            "useGeluApproximation", "whole", "carried out", "1: GELU by tanh instead of erf, an error of up to 5e-4. "
            "Without the flag it is exact (MNN: by tanh).", default="1",
        ),
        MnnFlag(
            "convertMatmulToConv", "whole", "carried out", "1: products with a constant matrix become convolutions of "
            "one element. Without the flag only with --weightQuantBits (MNN: always).", default="1",
        ),
        MnnFlag(
            "transformerFuse", "switch", "refused", "Attention stays products and softmax in files for all runtimes; "
            "`mnnconvert convert --target minnow` fuses it for Minnow's engine.",
        ),
        MnnFlag("transformerFuseC4", "whole", "no effect", _FUSED, default="1"),
        MnnFlag("transformerFuseQkvProj", "whole", "no effect", _FUSED, default="1"),
        MnnFlag("transformerFuseGateUpProj", "whole", "no effect", _FUSED, default="1"),
        MnnFlag("transformerFuseLnProj", "whole", "no effect", _FUSED, default="1"),
        MnnFlag("groupConvNative", "switch", "always", "A convolution in groups is one node."),
        MnnFlag("useOriginRNNImpl", "switch", "always", "LSTM, GRU and RNN are one node each."),
        MnnFlag("dumpPass", "switch", "carried out", "Print a line for each pass of the optimizer."),
        MnnFlag("rknn", "switch", "refused", "There is no converter for this processor; few builds of MNN have it."),
    )
}  # fmt: skip
"""All flags by name."""


class GivenFlags:
    """The flags of a command line. The code that carries one out takes it; at the end none may be left.

    Args:
        values: by name; a flag that is not given is absent.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._left = set(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a flag, and the promise that it is carried out."""
        if MNN_FLAGS[name].state != "carried out":
            raise InternalError(f"--{name} is said not to be carried out")
        self._left.discard(name)
        return self._values.get(name, default)

    def refuse(self) -> None:
        """Raises UnsupportedError with all flags that are refused, and the reasons."""
        found = [
            f"--{name}: {MNN_FLAGS[name].doc}"
            for name, value in self._values.items()
            if MNN_FLAGS[name].state == "refused" and str(value) != MNN_FLAGS[name].default
        ]
        if found:
            raise UnsupportedError("unsupported options of MNN's converter", items=found)

    def notes(self) -> Iterator[str]:
        """A note for each flag that is accepted, but not carried out for this conversion."""
        for name in self._values:
            flag = MNN_FLAGS[name]
            if flag.state in ("always", "no effect"):
                yield f"--{name}: {flag.doc}"
                self._left.discard(name)
            elif flag.state == "refused":
                self._left.discard(name)

    def finish(self) -> None:
        """Raises InternalError if a flag would have no effect without a word."""
        if self._left:
            raise InternalError(f"not carried out: {', '.join(f'--{name}' for name in sorted(self._left))}")


def flag_rows() -> list[list[str]]:
    """A row for each flag: name, state, and what it does."""
    return [[f"`-{f.short}`, `--{f.name}`" if f.short else f"`--{f.name}`", f.state, f.doc] for f in MNN_FLAGS.values()]
