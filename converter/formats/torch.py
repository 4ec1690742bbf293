"""How PyTorch's two formats are recognized."""

from __future__ import annotations

from pathlib import Path

from minnow.converter.formats import Format


def archive_kind(path: Path) -> str:
    """ "torchscript" or "torch_export" for an archive of that kind, "pickle" for one of weights alone, else ""."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return ""
    inner = [n.partition("/")[2] for n in names]
    if "archive_format" in inner or "serialized_exported_program.json" in names:
        return "torch_export"
    if any(n.startswith("code/") or n == "bytecode.pkl" for n in inner):
        return "torchscript"
    return "pickle" if "data.pkl" in inner else ""


def _sniff(path: Path, head: bytes) -> bool:
    """Both formats are zip archives; Keras has such files, too."""
    return head[:4] == b"PK\x03\x04" and bool(archive_kind(path))


FORMAT = Format("torch", _sniff, (".pt2", ".pt", ".pth", ".jit", ".ts", ".ptl", ".torchscript"))
