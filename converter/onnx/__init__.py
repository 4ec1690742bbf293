"""ONNX files: opset 1 to the newest. Importing this registers all mappings."""

from minnow.converter.base import import_modules
from minnow.converter.onnx import contrib, ops
from minnow.converter.onnx.frontend import frontend

import_modules(ops, contrib)

__all__ = ["frontend"]
