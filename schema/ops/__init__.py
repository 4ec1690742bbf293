"""All ops, one file per family; `schema/registry/op.py` says how one is written.

What nearly everyone needs who works with ops is had from here: `Builder`, `get`, `Trait`.
"""

import importlib
import pkgutil

from minnow.schema.registry.builder import Builder, infer_node
from minnow.schema.registry.op import Arg, Encoding, Op, Sample, Trait, WireOp, all_ops, get, op

# Each module of this package registers its ops on import: there is no list of families to keep.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Arg", "Builder", "Encoding", "Op", "Sample", "Trait", "WireOp", "all_ops", "get", "infer_node", "op"]
