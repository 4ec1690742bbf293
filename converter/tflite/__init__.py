"""TFLite (LiteRT) files, schema version 3. Importing this registers all mappings."""

import importlib
import pkgutil

from minnow.converter.tflite.frontend import frontend

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in ("reader", "description"):  # these need the families, not the other way round
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["frontend"]
