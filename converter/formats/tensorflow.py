"""How TensorFlow's graphs, SavedModels and Keras files are recognized."""

from __future__ import annotations

import re
from pathlib import Path

from minnow.converter.formats import Format

_SAVED = ("saved_model.pb", "saved_model.pbtxt")
_TEXT = re.compile(rb"\s*(#[^\n]*\n\s*)*(node|library|versions)\s*:?\s*\{")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_MEMBERS = {"config.json", "metadata.json"}


def _sniff(path: Path, head: bytes) -> bool:
    """A GraphDef starts with its first node, which starts with its name or operator; so it does in text form.

    A SavedModel is a folder, or the file with graphs in it; Keras has files of its own.
    """
    if path.is_dir() or path.name.startswith("saved_model.pb"):
        return any((path / name).is_file() for name in _SAVED) or path.name in _SAVED
    if _TEXT.match(head) or is_keras(path, head):
        return True
    if head[:1] != b"\x0a":
        return False
    at = 1
    while at < len(head) and head[at] & 0x80:
        at += 1
    # A node has a name at least; what Caffe writes of a net without one begins with an empty text.
    return at < 6 and len(head) > at + 3 and head[1] != 0 and head[at + 1] in b"\x0a\x12"


def is_keras(path: Path, head: bytes) -> bool:
    """Whether a file is one of Keras, by its first bytes and the names in it."""
    if head.startswith(_ZIP):
        import zipfile

        try:
            with zipfile.ZipFile(path) as archive:
                return set(archive.namelist()) >= _MEMBERS
        except (OSError, zipfile.BadZipFile, ValueError):
            return path.suffix.lower() == ".keras"
    return head.startswith(_HDF5)


FORMAT = Format("tensorflow", _sniff, (".pb", ".pbtxt", ".keras", ".h5", ".hdf5"))
