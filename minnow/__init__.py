"""Minnow turns a trained model into a small, fast, verified `.mnn` file, and runs it.

    report = minnow.convert("model.onnx", output="model.mnn", verify=True)
    session = minnow.load("model.mnn", threads=2)
    outputs = session.run({"x": array})

Public names are imported on first use, so that `import minnow` imports neither numpy nor networkx, nor anything else
that a fresh interpreter has not loaded. It must stay fast: `mnnconvert` handles Ctrl-C only after this import.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from minnow import cv, data, errors, expr, llm, nn, numpy, optim
    from minnow.check import Check, check
    from minnow.conversion_report import Report
    from minnow.convert import convert
    from minnow.interpreter import CVImageProcess, CVMatrix, Interpreter, OpInfo, Tensor, get_model_uuid, version
    from minnow.quantize import quantize
    from minnow.runtime.device_array import DeviceArray
    from minnow.runtime.session import Model, Session, TensorInfo, load
    from minnow.runtime.verify import verify
else:
    ModuleType = type(sys)

__version__ = "0.1.0"

__all__ = [
    "CVImageProcess",
    "CVMatrix",
    "Check",
    "DeviceArray",
    "Interpreter",
    "Model",
    "OpInfo",
    "Report",
    "Session",
    "Tensor",
    "TensorInfo",
    "__version__",
    "check",
    "convert",
    "cv",
    "data",
    "errors",
    "expr",
    "get_model_uuid",
    "llm",
    "load",
    "nn",
    "numpy",
    "optim",
    "quantize",
    "verify",
    "version",
]

_MODULES = ("errors", "expr", "numpy", "cv", "nn", "optim", "data", "llm")

_CONSTANTS = ("Halide_Type_", "Tensor_DimensionType_", "CV_")
"""What names of constants of `minnow.interpreter` begin with."""

_HOME = {
    "CVImageProcess": "minnow.interpreter",
    "CVMatrix": "minnow.interpreter",
    "Check": "minnow.check",
    "DeviceArray": "minnow.runtime.device_array",
    "Interpreter": "minnow.interpreter",
    "Model": "minnow.runtime.session",
    "OpInfo": "minnow.interpreter",
    "Report": "minnow.conversion_report",
    "Session": "minnow.runtime.session",
    "Tensor": "minnow.interpreter",
    "TensorInfo": "minnow.runtime.session",
    "check": "minnow.check",
    "convert": "minnow.convert",
    "get_model_uuid": "minnow.interpreter",
    "load": "minnow.runtime.session",
    "quantize": "minnow.quantize",
    "verify": "minnow.runtime.verify",
    "version": "minnow.interpreter",
}


class _Face(ModuleType):
    """The type of this module. It keeps public functions from being replaced by submodules of the same name.

    Importing a submodule binds its name in the package: after `import minnow.convert` the function `minnow.convert`
    would be the module.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"minnow.{name}")
    home = "minnow.interpreter" if name.startswith(_CONSTANTS) else _HOME.get(name)
    value = None if home is None else getattr(importlib.import_module(home), name, None)
    if value is None:
        raise AttributeError(f"module 'minnow' has no attribute {name!r}")
    globals()[name] = value  # found without this function the next time
    return value


def __dir__() -> list[str]:
    return __all__
