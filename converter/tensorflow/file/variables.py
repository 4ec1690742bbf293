"""The values of variables in a checkpoint: an index (`variables.index`), and data files.

The table is sorted by key, in blocks whose keys leave out what they share with the one before. Numbers stay in their
files, and are mapped when they are used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.tensorflow.file.checksum import crc32c, mask
from minnow.converter.tensorflow.file.source import plain_bytes
from minnow.converter.tensorflow.message import BundleEntryProto, BundleHeaderProto, type_name
from minnow.converter.tensorflow.tensor import COMPLEX, dtype_of
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Blob, DType, LazyBlob, MappedBlob
from minnow.schema.limit import add_stored

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5  # behind each block: how it is compressed, and a checksum
_MAX_INDEX = 1 << 30
_MOST_READ, _READ_PER_BYTE = 1 << 20, 64
"""Bytes of blocks and keys that a table may come to: keys share their beginnings, and blocks may be named again."""
_WHOLE = -1  # the length of a slice that takes the whole axis

Slice = tuple[tuple[int, int], ...]
"""(start, length) per axis."""


class Variables:
    """What a file of variables holds.

    Args:
        prefix: the path of the files without their endings, "folder/variables/variables".

    Raises:
        FormatError: the table is damaged, or of another kind. UnsupportedError: it is compressed, or big-endian.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.path = prefix.with_name(prefix.name + ".index")
        try:
            if self.path.stat().st_size > _MAX_INDEX:
                raise FormatError("the table of variables is too big", where=str(self.path))
        except OSError as e:
            raise FormatError("cannot read the variables", where=str(self.path), why=e.strerror or str(e)) from None
        self._bytes = plain_bytes(self.path)
        self._left = _MOST_READ + len(self._bytes) * _READ_PER_BYTE
        self._entries = dict(self._table())
        header = self._message(BundleHeaderProto, self._entries.pop(b"", b""))
        if header.endianness != BundleHeaderProto.LITTLE:
            raise UnsupportedError("variables in big-endian byte order are not supported", where=str(self.path))
        self.shards = header.num_shards

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._entries

    def __iter__(self) -> Iterator[str]:
        return (key.decode("utf-8", "replace") for key in self._entries if key[:1] != b"\0")

    def read(self, key: str, part: str = "") -> tuple[DType, tuple[int, ...], Blob]:
        """A tensor: element type, shape, numbers. Complex numbers have a last axis of two.

        Args:
            key: its name in the table.
            part: which slice of it, as "10 4 0,5:-": the whole shape, and start,length per axis; empty for all.

        Raises:
            FormatError: there is none, or it is damaged. UnsupportedError: of no type of numbers.
        """
        entry = self._entry(key.encode(), key)
        shape = self._shape(entry, key)
        if not part.strip():
            dtype, blob = self._whole(entry, shape, key)
            return dtype, blob.shape, blob
        wanted = _parse(part, shape, f"{self.path}: {key}")
        exact = _slice_key(key, tuple((0, _WHOLE) if p == (0, n) else p for p, n in zip(wanted, shape, strict=True)))
        wanted_shape = tuple(length for _, length in wanted)
        if exact in self._entries:
            dtype, blob = self._blob(self._entry(exact, key), wanted_shape, key)
            return dtype, blob.shape, blob
        dtype, whole = self._whole(entry, shape, key)
        cut = tuple(slice(start, start + length) for start, length in wanted)
        full = wanted_shape + whole.shape[len(shape) :]
        return dtype, full, LazyBlob(lambda: whole.numpy()[cut], dtype, full)

    def text(self, key: str) -> bytes:
        """A tensor that is one text. Raises FormatError when it is damaged, or something else."""
        entry = self._entry(key.encode(), key)
        if type_name(entry.dtype) != "DT_STRING" or self._shape(entry, key):
            raise self._error("the entry should be a string", key)
        data = bytes(MappedBlob(*self._place(entry, entry.size, key), DType.U8, (entry.size,)).numpy())
        length, at = self._varint(data, 0)
        if at + 4 + length != len(data):  # between length and text is a checksum
            raise self._error("the length of a string does not agree with the table", key)
        return data[at + 4 :]

    def _whole(self, entry: Any, shape: tuple[int, ...], key: str) -> tuple[DType, Blob]:
        if not entry.slices:
            return self._blob(entry, shape, key)
        parts: list[tuple[Slice, Blob]] = []
        for proto in entry.slices:
            if len(proto.extent) != len(shape):
                raise self._error("the rank of a slice is not that of its variable", key)
            stored = tuple((e.start, e.length if e.HasField("has_length") else _WHOLE) for e in proto.extent)
            place = tuple(
                (0, n) if length == _WHOLE else (s, length) for (s, length), n in zip(stored, shape, strict=True)
            )
            self._check_slice(place, shape, key)
            inner = self._entry(_slice_key(key, stored), key)
            dtype, blob = self._blob(inner, tuple(length for _, length in place), key)
            parts.append((place, blob))
        if sum(math.prod(length for _, length in place) for place, _ in parts) != math.prod(shape):
            raise self._error("the slices of a variable do not cover it", key)
        full = shape + parts[0][1].shape[len(shape) :]

        def join() -> np.ndarray[Any, Any]:
            out = np.empty(full, dtype.numpy)
            for place, blob in parts:
                out[tuple(slice(s, s + length) for s, length in place)] = blob.numpy()
            return out

        return dtype, LazyBlob(join, dtype, full)

    def _blob(self, entry: Any, shape: tuple[int, ...], key: str) -> tuple[DType, Blob]:
        """The numbers that one entry says where to find, checked against their checksum."""
        kind = type_name(entry.dtype)
        dtype = COMPLEX.get(kind) or dtype_of(entry.dtype, f"{self.path}: {key}")
        full = (*shape, 2) if kind in COMPLEX else shape
        size = math.prod(full) * dtype.size
        if entry.size != size:
            raise self._error(
                "the size of a variable does not agree with its shape", key, f"{entry.size}, not {size} bytes"
            )
        path, _ = self._place(entry, size, key)
        add_stored(size, path, key)
        blob = MappedBlob(path, entry.offset, dtype, full)
        if size and mask(crc32c(np.asarray(MappedBlob(path, entry.offset, DType.U8, (size,)).numpy()))) != entry.crc32c:
            raise FormatError(
                "the numbers of a variable are damaged", where=str(path), why=f"the checksum of '{key}' does not agree"
            )
        return dtype, blob

    def _place(self, entry: Any, size: int, key: str) -> tuple[Path, int]:
        """The file with the bytes of an entry, and where they begin in it."""
        if not 0 <= entry.shard_id < self.shards:
            raise self._error(
                "the file that holds a variable does not exist", key, f"{entry.shard_id} of {self.shards}"
            )
        path = self.prefix.with_name(f"{self.prefix.name}.data-{entry.shard_id:05d}-of-{self.shards:05d}")
        try:
            there = path.stat().st_size
        except OSError as e:
            raise FormatError("cannot read the variables", where=str(path), why=e.strerror or str(e)) from None
        if entry.offset < 0 or entry.offset + size > there:
            why = f"'{key}' ends at byte {entry.offset + size}, the file at {there}"
            raise FormatError("the file of variables is cut off", where=str(path), why=why)
        return path, entry.offset

    def _entry(self, key: bytes, name: str) -> Any:
        if key not in self._entries:
            raise self._error("there is no such variable", name)
        return self._message(BundleEntryProto, self._entries[key])

    def _shape(self, entry: Any, key: str) -> tuple[int, ...]:
        shape = tuple(int(d.size) for d in entry.shape.dim)
        if entry.shape.unknown_rank or any(d < 0 for d in shape):
            raise self._error("a variable has no shape", key)
        return shape

    def _check_slice(self, place: Slice, shape: Sequence[int], key: str) -> None:
        if any(s < 0 or length < 0 or s + length > n for (s, length), n in zip(place, shape, strict=True)):
            raise self._error("a slice of a variable lies outside of it", key, f"{place} of {tuple(shape)}")

    def _error(self, what: str, key: str = "", why: str = "") -> FormatError:
        return FormatError(what, where=f"{self.path}: {key}" if key else str(self.path), why=why)

    def _message(self, kind: Any, data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
            raise self._error("the table of variables is damaged", "", str(e)[:200]) from None

    # ---- the table

    def _table(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values of all blocks, in order."""
        data = self._bytes
        if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
            raise self._error("this is not a table of variables, or it is cut off")
        footer = data[-_FOOTER:-8]
        _, _, at = self._handle(footer, 0)
        start, size, _ = self._handle(footer, at)
        for _, value in self._block(start, size):
            inner, length, _ = self._handle(value, 0)
            yield from self._block(inner, length)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._error("the table of variables is damaged", "", "its keys and blocks come to more than it has")

    def _handle(self, data: bytes, at: int) -> tuple[int, int, int]:
        offset, at = self._varint(data, at)
        size, at = self._varint(data, at)
        return offset, size, at

    def _block(self, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        end = start + size
        if size < 4 or end + _TRAILER > len(self._bytes) - _FOOTER:
            raise self._error("a block of the table of variables lies outside of it")
        self._spend(size)
        block = self._bytes[start:end]
        compressed = self._bytes[end]
        if mask(crc32c(self._bytes[start : end + 1])) != struct.unpack_from("<I", self._bytes, end + 1)[0]:
            raise self._error(
                "the table of variables is damaged", "", f"the checksum of the block at byte {start} does not agree"
            )
        if compressed:
            raise UnsupportedError(
                "compressed tables of variables are not supported",
                where=str(self.path),
                hint="load the model in TensorFlow and save it again: it does not compress them",
            )
        (restarts,) = struct.unpack_from("<I", block, size - 4)
        limit = size - 4 - 4 * restarts
        if limit < 0:
            raise self._error("a block of the table of variables is damaged")
        at, key = 0, b""
        while at < limit:
            shared, at = self._varint(block, at)
            fresh, at = self._varint(block, at)
            length, at = self._varint(block, at)
            if shared > len(key) or at + fresh + length > limit:
                raise self._error("a block of the table of variables is damaged")
            self._spend(shared)
            key = key[:shared] + block[at : at + fresh]
            at += fresh
            yield key, block[at : at + length]
            at += length

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while at < len(data) and shift < 64:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise self._error("a number in the table of variables is damaged")


def _parse(part: str, shape: tuple[int, ...], where: str) -> Slice:
    """A slice from its text, "10 4 0,5:-" (a dash is a whole axis)."""
    *sizes, text = part.split()
    try:
        pairs = [(0, n) if axis == "-" else tuple(map(int, axis.split(","))) for axis, n in
                 zip(text.split(":"), shape, strict=True)]  # fmt: skip
        found = tuple((int(start), int(length)) for start, length in pairs)
        inside = all(s >= 0 and length >= 0 and s + length <= n for (s, length), n in zip(found, shape, strict=True))
        if tuple(map(int, sizes)) != shape or not inside:
            raise ValueError
    except ValueError:
        raise FormatError("a slice does not fit its variable", where=where, why=f"'{part}' of {shape}") from None
    return found


def _slice_key(key: str, place: Slice) -> bytes:
    """The key of a slice: numbers and text in a form whose bytes sort as they do."""
    text = key.encode().replace(b"\xff", b"\xff\x00").replace(b"\0", b"\0\xff")
    out = b"\0" + text + b"\0\x01" + _unsigned(len(place))
    return out + b"".join(_signed(start) + _signed(length) for start, length in place)


def _unsigned(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """As many bits are set in front as there are bytes; then, of a number that is not negative, none."""
    size = (~value if value < 0 else value).bit_length() // 7 + 1
    head = ((1 << size) - 1) << (8 * size - size)
    return ((value % (1 << 8 * size)) ^ head).to_bytes(size, "big")
