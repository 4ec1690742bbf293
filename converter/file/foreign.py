"""Files that are not models, or of formats that are not read: identified by their content, with what to do instead."""

from __future__ import annotations

import mmap
from pathlib import Path

from minnow.schema.errors import FormatError

AGAIN = "download it again, and look at what was saved: it should be as large as the page says"
"""What to do about a file that is not a model, or damaged."""
_UNPACK = "unpack it, and convert the model in it"
_WEIGHTS = "save the whole model in the program that made them: as ONNX, or with `torch.export.save`"
_SOURCE = "convert the model that it was made from"
_PICTURE = "name the model; `--data` takes pictures to verify it on"
_FOLDER = "of a language model give the folder, with its config.json; else "

# Where the mark stands, the mark, what such a file is, and what to do.
_MARKS = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the model", "run `git lfs pull` in its folder"),
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (8, b'{"', "a safetensors file, which holds weights without a graph", _FOLDER + _WEIGHTS),
    (4, b"ORTM", "a model in ONNX Runtime's own format", _SOURCE),
    (4, b"PTMF", "a mobile module of PyTorch in its FlatBuffer form", "save it with `torch.jit.save`"),
    (4, b"ET12", "an ExecuTorch program", _SOURCE),
    (0, b"ptrt", "a TensorRT engine, which is compiled for one GPU", _SOURCE),
    (0, b"ftrt", "a TensorRT engine, which is compiled for one GPU", _SOURCE),
    (0, b"RKNN", "an RKNN model, which is compiled for one chip", _SOURCE),
    (0, b"7767517", "a model of ncnn", _SOURCE),
    (0, b"\x93NUMPY", "an array of numpy", "`--data` takes arrays, in an .npz file"),
    (0, b"%PDF", "a PDF document", AGAIN),
    (0, b"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (0, b"\x89PNG\r\n", "a PNG picture", _PICTURE),
)

# The same of text, by how it begins, in small letters. The first is what servers answer in place of a file.
_TEXTS = (
    ((b"<!doctype html", b"<html"), "an HTML page, not the model: the download has failed", AGAIN),
    ((b"404: not found", b"entry not found", b"<error>"), "a server's error, not the model", AGAIN),
    ((b"<net ",), "a model of OpenVINO", _SOURCE),
    ((b"{", b"["), "a JSON file, not the model", "name the file that holds the graph"),
)

_PICKLES = (b"\x8a", b"\x95", b"}", b"]", b"(", b"c", b"X")  # how a pickle goes on after its version
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_MODELS = (".onnx", ".pb", ".tflite", ".pt2", ".pt", ".h5", ".keras", ".caffemodel", ".mnn")


def refuse_foreign(path: Path, head: bytes) -> None:
    """Raises FormatError, which names it, for a file that is none of the formats that Minnow reads.

    Args:
        head: its first bytes, 4096 where it has so many.
    """
    if (known := _named(path, head)) is not None:
        what, hint = known
        raise FormatError(f"this is {what}", where=str(path), hint=hint)


def refuse_zip(path: Path, head: bytes) -> None:
    """Raises FormatError, which says what is in it, for a zip archive: for one that no format is at home in."""
    if not head.startswith(_ZIP):
        return
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        raise FormatError("this is a zip archive that is damaged or cut off", where=str(path), hint=AGAIN) from None
    models = [name for name in names if name.lower().endswith(_MODELS)]
    if names and all(name.endswith(".npy") for name in names):
        what, hint = "an .npz file: arrays, not a model", "`--data` takes it"
    else:
        what, hint = "a zip archive, not a model", f"unpack it: it holds {models[0]}" if models else _UNPACK
    raise FormatError(f"this is {what}", where=str(path), why=f"it holds {', '.join(names[:3])}, ..."[:200], hint=hint)


def _named(path: Path, head: bytes) -> tuple[str, str] | None:
    for at, mark, what, hint in _MARKS:
        if head.startswith(mark, at) and not (at == 8 and any(head[4:8])):  # lengths of headers are small
            return what, hint
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and head[2:3] in _PICKLES:
        return "a pickle, of PyTorch's weights perhaps, which holds no graph", _WEIGHTS
    if head.startswith(_HDF5) and not _contains(path, b"model_config"):
        return "an HDF5 file without a model, of weights perhaps", "save the whole model with `model.save`"
    if _is_core_ml(head) and (head[1] > 1 or path.suffix.lower() == ".mlmodel"):  # a SavedModel is of version 1
        return "a Core ML model", _SOURCE
    return _named_text(head)


def _named_text(head: bytes) -> tuple[str, str] | None:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if b"\0" in text[:256]:
        return None
    text = text.lower()
    is_xml = text.startswith(b"<?xml")
    for starts, what, hint in _TEXTS:
        if text.startswith(starts) or (is_xml and any(start in text for start in starts if start[:1] == b"<")):
            return what, hint
    return ("an XML file, not the model", AGAIN) if is_xml else None


def _is_core_ml(head: bytes) -> bool:
    """It begins as ONNX does, with a version; but what follows is a message there, where ONNX has a text."""
    if head[:1] != b"\x08" or head[2:3] != b"\x12":
        return False
    at = 3
    while at < len(head) and head[at] & 0x80:
        at += 1
    return head[at + 1 : at + 2] == b"\x0a"


def _contains(path: Path, text: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0
