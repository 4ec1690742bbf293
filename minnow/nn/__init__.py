"""Modules: functions with parameters, from a file or written in Python: MNN's `nn`.

from minnow import nn
net = nn.load_module_from_file("model.mnn", ["data"], ["prob"])
probability = net.forward(image)
"""

import importlib as _importlib
import importlib.util as _util
from typing import Any as _Any

from minnow.expr.names import keep_public as _keep_public
from minnow.nn.layer import *
from minnow.nn.module import *
from minnow.nn.module import EmptyModule

dummy = EmptyModule()

_keep_public(globals(), "nn", "dummy", "_importlib", "_util", "_Any")


def __getattr__(name: str) -> _Any:
    full = f"{__name__}.{name}"
    if name.startswith("_") or _util.find_spec(full) is None:
        raise AttributeError(f"module 'minnow.nn' has no attribute {name!r}")
    return _importlib.import_module(full)
