"""Caffe nets. Importing this registers the mappings of all layers."""

from minnow.converter.base import import_modules
from minnow.converter.caffe import ops
from minnow.converter.caffe.frontend import frontend

import_modules(ops)

__all__ = ["frontend"]
