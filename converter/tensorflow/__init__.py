"""TensorFlow graphs. Importing this registers all mappings; `tensorflow` is not imported."""

from minnow.converter.base import import_modules
from minnow.converter.tensorflow import ops, symbolic
from minnow.converter.tensorflow.frontend import frontend

import_modules(ops, symbolic)

__all__ = ["frontend"]
