"""TensorFlow graphs. Each module beside this one registers the mappings of a family; `tensorflow` is not imported."""

import importlib
import pkgutil

from minnow.converter.tensorflow.frontend import frontend

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["frontend"]
