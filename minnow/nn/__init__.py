"""Modules: functions with parameters, from a file or written in Python: MNN's `nn`.

from minnow import nn
net = nn.load_module_from_file("model.mnn", ["data"], ["prob"])
probability = net.forward(image)
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from minnow.nn.gradient import grad
from minnow.nn.graph_module import load_module
from minnow.nn.layer import batch_norm, conv, dropout, linear
from minnow.nn.loaded_module import load_module_from_file
from minnow.nn.module import EmptyModule, Module
from minnow.nn.runtime_manager import create_runtime_manager

__all__ = ["EmptyModule", "Module", "batch_norm", "conv", "create_runtime_manager", "dropout", "dummy", "grad",
           "linear", "load_module", "load_module_from_file"]  # fmt: skip

dummy = EmptyModule()
"""The one of a program."""


def __getattr__(name: str) -> Any:
    full = f"{__name__}.{name}"
    if name.startswith("_") or importlib.util.find_spec(full) is None:
        raise AttributeError(f"module 'minnow.nn' has no attribute {name!r}")
    return importlib.import_module(full)
