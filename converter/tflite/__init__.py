"""TFLite (LiteRT) files, schema version 3. Importing this registers all mappings."""

from minnow.converter.base import import_modules
from minnow.converter.tflite import ops
from minnow.converter.tflite.frontend import frontend

import_modules(ops)

__all__ = ["frontend"]
