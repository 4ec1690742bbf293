"""Caffe nets. Each module beside this one registers the mappings of a family of layers."""

import importlib
import pkgutil

from minnow.converter.caffe.frontend import frontend

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["frontend"]
