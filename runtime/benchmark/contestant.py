"""The runtimes that can be timed. Each is a class with `load` and `step`, and runs in a process of its own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from minnow.options.run import RunOptions

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Contestant(ABC):
    """One runtime in its own process.

    Attributes:
        module: the package it needs.
        files: suffixes of the files that it reads; the first that exists beside the model is used.
        needs_names: it must be told the names of the outputs.
    """

    module: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    needs_names: ClassVar[bool] = False

    @abstractmethod
    def load(self, path: str, options: RunOptions) -> str:
        """Loads the model; returns the runtime's version. Others than Minnow only use threads and precision."""

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        """Prepares the inputs once; this is not timed."""
        self.inputs = dict(inputs)

    @abstractmethod
    def step(self) -> object:
        """One inference, from `place` to `place`: this is what is timed."""

    def place(self) -> str:
        """Where `step` takes its inputs and leaves its outputs: "host", or a device, to which `prepare` copies them."""
        return "host"

    def host_step(self) -> object:
        """One inference from host arrays to host arrays."""
        return self.step()

    def profile(self, runs: int) -> list[dict[str, Any]]:
        """One row per node, if the runtime reports it."""
        return []

    def memory(self) -> dict[str, int]:
        """Bytes by purpose, if the runtime reports it."""
        return {}


class Minnow(Contestant):
    module = "minnow"
    files = (".mnn",)

    def load(self, path: str, options: RunOptions) -> str:
        import minnow

        self.session = minnow.load(path, **vars(options))
        self.device = options.device.replace("cuda", "cuda:0") if options.device == "cuda" else options.device
        return minnow.__version__

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        super().prepare(inputs)
        self.given: Mapping[str, Any] = self.session.to_device(inputs) if self.place() != "host" else inputs

    def place(self) -> str:
        return self.device if self.device.startswith("cuda") else "host"

    def step(self) -> object:
        if self.place() == "host":
            return self.session.run(self.given)
        return self.session.run(self.given, device_outputs=True)

    def host_step(self) -> object:
        return self.session.run(self.inputs)

    def profile(self, runs: int) -> list[dict[str, Any]]:
        return self.session.profile(self.given, runs)

    def memory(self) -> dict[str, int]:
        return {name: size for name, size in self.session.stats.items() if name.endswith("_bytes")}


class OnnxRuntime(Contestant):
    module = "onnxruntime"
    files = (".onnx",)

    def load(self, path: str, options: RunOptions) -> str:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        own = onnxruntime.SessionOptions()
        own.intra_op_num_threads, own.inter_op_num_threads = options.threads or 1, 1
        self.session = onnxruntime.InferenceSession(path, own, providers=["CPUExecutionProvider"])
        return str(onnxruntime.__version__)

    def step(self) -> object:
        return self.session.run(None, self.inputs)


class OpenVINO(Contestant):
    module = "openvino"
    files = (".onnx",)

    def load(self, path: str, options: RunOptions) -> str:
        os.environ.setdefault("OPENVINO_TELEMETRY_ENABLED", "0")
        import openvino

        hints: dict[str, int | str] = {"INFERENCE_NUM_THREADS": options.threads or 1, "NUM_STREAMS": 1}
        if options.precision == "high":
            hints["INFERENCE_PRECISION_HINT"] = "f32"
        self.request = openvino.Core().compile_model(path, "CPU", hints).create_infer_request()
        return str(openvino.__version__)

    def step(self) -> object:
        return [v.copy() for v in self.request.infer(self.inputs, share_inputs=True).values()]


class LiteRT(Contestant):
    module = "ai_edge_litert"
    files = (".tflite",)

    def load(self, path: str, options: RunOptions) -> str:
        import ai_edge_litert
        from ai_edge_litert.interpreter import Interpreter

        # As in applications: with XNNPACK if it supports the model.
        self.interpreter = Interpreter(path, num_threads=options.threads or 1)
        self.interpreter.allocate_tensors()
        return str(getattr(ai_edge_litert, "__version__", ""))

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        details = self.interpreter.get_input_details()
        for array, detail in zip(inputs.values(), details, strict=True):
            if tuple(detail["shape"]) != array.shape:
                self.interpreter.resize_tensor_input(detail["index"], array.shape)
        self.interpreter.allocate_tensors()
        self.arrays = [(d["index"], array) for d, array in zip(details, inputs.values(), strict=True)]

    def step(self) -> object:
        for index, array in self.arrays:
            self.interpreter.set_tensor(index, array)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(d["index"]) for d in self.interpreter.get_output_details()]


class MNN(Contestant):
    module = "MNN"
    files = (".mnn",)
    needs_names = True

    def load(self, path: str, options: RunOptions) -> str:
        # The package must never import its `tools`, which contact a log server.
        import MNN
        from MNN import nn

        names = {"high": "high", "normal": "normal", "low": "low"}
        config = {"precision": names[options.precision], "backend": "CPU", "numThread": options.threads or 1}
        runtime = nn.create_runtime_manager((config,))
        self.module_ = nn.load_module_from_file(path, self.names()[0], self.names()[1], runtime_manager=runtime)
        self._expr = MNN.expr
        return str(MNN.version())

    def names(self) -> tuple[list[str], list[str]]:
        """Names of inputs and outputs, set by the parent process."""
        return self._names

    _names: tuple[list[str], list[str]] = ([], [])

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        expr = self._expr
        self.vars = []
        for name in self._names[0]:
            array = inputs[name]
            kind, array = (
                (expr.int, array.astype("int32"))
                if array.dtype.kind in "iub"
                else (expr.float, array.astype("float32"))
            )
            self.vars.append(expr.const(array, list(array.shape), expr.NCHW, kind))

    def step(self) -> object:
        return [v.read() for v in self.module_.onForward(self.vars)]


class NCNN(Contestant):
    module = "ncnn"
    files = (".ncnn.param",)

    def load(self, path: str, options: RunOptions) -> str:
        import ncnn
        from numpy import array

        self.array = array
        self.net = ncnn.Net()
        self.net.opt.num_threads = options.threads or 1
        if options.precision == "high":
            self.net.opt.use_fp16_packed = self.net.opt.use_fp16_storage = self.net.opt.use_fp16_arithmetic = False
            self.net.opt.use_bf16_storage = False
        self.net.load_param(path)
        self.net.load_model(path.removesuffix(".param") + ".bin")
        self.ncnn = ncnn
        return str(ncnn.__version__)

    def prepare(self, inputs: Mapping[str, Array]) -> None:
        # The converter names inputs in0, in1, ...; batch 1 is left out of its matrices.
        self.mats = [
            (n, self.ncnn.Mat(a[0].copy())) for n, a in zip(self.net.input_names(), inputs.values(), strict=True)
        ]

    def step(self) -> object:
        with self.net.create_extractor() as extractor:
            for name, mat in self.mats:
                extractor.input(name, mat)
            return [self.array(extractor.extract(n)[1]) for n in self.net.output_names()]


CONTESTANTS: dict[str, type[Contestant]] = {
    "minnow": Minnow,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVINO,
    "litert": LiteRT,
    "mnn": MNN,
    "ncnn": NCNN,
}
"""By the name used on the command line."""
