"""Protobuf message classes of a format, made from the descriptors that the build writes.

They live in a pool of their own, so that they never clash with those of an imported package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def load(files: bytes, package: str) -> Callable[[str], Any]:
    """(name of a message) -> its class, from the description that the build makes of a .proto."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
