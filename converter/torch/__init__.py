"""TorchScript files and `.pt2` archives of torch.export. Importing this registers all mappings."""

import importlib
import pkgutil

from minnow.converter.torch.frontend import frontend

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in ("reader", "description", "exported", "script", "child"):
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["frontend"]
