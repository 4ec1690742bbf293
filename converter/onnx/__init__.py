"""ONNX files: opset 1 to the newest. Each module beside this one registers the mappings of a family."""

import importlib
import pkgutil

from minnow.converter.onnx.frontend import frontend

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["frontend"]
