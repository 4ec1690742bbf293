"""The op registry. Importing this package registers every op; see `op.py` for how one is written."""

import importlib
import pkgutil

from minnow.schema.ops.builder import Builder, infer_node
from minnow.schema.ops.op import Arg, Encoding, Op, Sample, Trait, WireOp, all_ops, get, op

# Each module of this package registers its ops on import: there is no list of families to keep.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Arg", "Builder", "Encoding", "Op", "Sample", "Trait", "WireOp", "all_ops", "get", "infer_node", "op"]
