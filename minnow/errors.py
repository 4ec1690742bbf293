"""The errors of every part, under their public name: see `minnow.schema.errors`."""

from minnow.schema.errors import *  # noqa: F403
