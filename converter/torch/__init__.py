"""TorchScript files and `.pt2` archives of torch.export. Importing this registers all mappings."""

from minnow.converter.base import import_modules
from minnow.converter.torch import ops, symbolic
from minnow.converter.torch.frontend import frontend

import_modules(ops, symbolic)

__all__ = ["frontend"]
