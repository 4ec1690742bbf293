"""Rules and passes, a folder for each topic. Importing this package registers all; `phases.py` says when they run."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
