"""Minnow as a backend of ONNX: `prepare`, `run_model` and `run_node` as `onnx.backend.base` defines them.

    import minnow.backend
    rep = minnow.backend.prepare(onnx.load("model.onnx"))
    outputs = rep.run([array])

`prepare` converts the model to a `.mnn` file and loads that file with the engine.
"""

from __future__ import annotations

import os
import tempfile
from collections import namedtuple
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.base
from onnx import TensorProto, helper

from minnow.convert import convert
from minnow.runtime import _engine
from minnow.runtime.session import Session, load
from minnow.schema.errors import MinnowError, UnsupportedError, UsageError


class BackendRep(onnx.backend.base.BackendRep):  # type: ignore[misc, unused-ignore]
    """A converted and loaded model.

    Attributes:
        session: the engine's session, for what `onnx.backend` has no method for.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        names = [info.name for info in session.outputs]
        self._outputs = namedtuple("Outputs", names, rename=True)  # type: ignore[misc]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model.

        Args:
            inputs: a list of arrays in the model's order, a mapping by name, or one array for a single input.

        Returns:
            The outputs in the model's order, as a named tuple where their names are identifiers.

        Raises:
            UsageError: an input is missing, or has a wrong shape or type. ModelError: the model is invalid for them.
        """
        if kwargs:
            raise UsageError(f"run() takes no argument '{next(iter(kwargs))}'")
        results = self.session.run(self._by_name(inputs))
        return self._outputs(*(results[info.name] for info in self.session.outputs))

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        values = [inputs] if isinstance(inputs, np.ndarray) or not isinstance(inputs, Sequence) else inputs
        names = [info.name for info in self.session.inputs]
        if len(values) != len(names):
            raise UsageError(f"{len(values)} inputs are given, the model has {len(names)}: {', '.join(names)}")
        return dict(zip(names, values, strict=True))


class Backend(onnx.backend.base.Backend):  # type: ignore[misc, unused-ignore]
    """The backend class that `onnx.backend.test.BackendTest` runs its tests with."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device is available and the model can be converted."""
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device, **kwargs)
        except UnsupportedError:
            return False
        return True

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto | str | os.PathLike[str],
        device: str = "CPU",
        *,
        threads: int | None = 1,
        **options: Any,
    ) -> BackendRep:
        """Converts and loads a model.

        Args:
            model: the model, or the path of its file (needed if its weights are in other files).
            device: "CPU", or a device such as "CUDA:1", beside which the CPU runs what it cannot.
            threads: as in `minnow.load`.
            options: of `minnow.convert`, such as `optimize` and `inputs`.

        Raises:
            UsageError: the device is not available. The errors of `minnow.convert`.
        """
        if not cls.supports_device(device):
            raise UsageError(f"unknown device '{device}'", hint="use CPU, or a device such as OPENCL or CUDA:1")
        with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
            source = Path(folder, "model.onnx")
            if isinstance(model, onnx.ModelProto):
                onnx.save_model(model, str(source))
            else:
                source = Path(model)
            target = Path(folder, "model.mnn")
            convert(source, output=target, framework="onnx", verify=False, **options)
            # The engine has mapped the file; on POSIX the mapping stays valid after the file is deleted.
            return BackendRep(load(target, threads=threads, device=_name(device)))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Converts and runs a model; see `prepare` and `BackendRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Converts and runs a single node.

        Args:
            node: the node.
            inputs: arrays for the inputs that the node has, in order or by name.
            device: "CPU", or a device such as "CUDA:1", beside which the CPU runs what it cannot.
            outputs_info: (dtype, shape) of each output, if known.
            kwargs: `opset_version`, by default the newest; others as in `prepare`.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(n for n in node.input if n))
        if not isinstance(inputs, Mapping):
            values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            inputs = dict(zip(names, map(np.asarray, values), strict=True))
        given = [_info(n, np.asarray(inputs[n]).dtype, np.shape(inputs[n])) for n in names]
        wanted = [n for n in node.output if n]
        known = iter(outputs_info or [])
        results = [
            helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) if row is None else _info(n, *row)
            for n, row in ((n, next(known, None)) for n in wanted)
        ]
        opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version() if node.domain else version)]
        if node.domain:
            opsets.append(helper.make_opsetid(node.domain, version))
        model = helper.make_model(helper.make_graph([node], "node", given, results), opset_imports=opsets)
        return cls.run_model(model, inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is here: "CPU", or any name of `minnow.load`, in upper or lower case."""
        name = _name(device)
        if name == "cpu":
            return True
        try:
            _engine.run_op("Identity", {}, [np.zeros(1, np.float32)], 1, device=name)
        except UnsupportedError:  # the device is there, and has no kernel for this op
            pass
        except MinnowError:
            return False
        return True


def _name(device: str) -> str:
    """As the engine calls it, which has one CPU."""
    kind, _, index = device.lower().partition(":")
    return kind if kind == "cpu" or not index else f"{kind}:{index}"


def _info(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run = Backend.run_model
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device

__all__ = ["Backend", "BackendRep", "is_compatible", "prepare", "run", "run_model", "run_node", "supports_device"]
