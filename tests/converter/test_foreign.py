"""Files that are no model, or of a format that is not read, are named by their content, whatever they are called."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minnow.cli._app import run
from minnow.converter import read
from minnow.converter.formats import detect
from minnow.schema.errors import FormatError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98304\n"
HTML = b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return buffer.getvalue()


def arrays() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(3))
    return buffer.getvalue()


CASES: dict[str, tuple[bytes, str, str]] = {
    "lfs": (LFS, "a Git LFS pointer, not the model", "git lfs pull"),
    "html": (HTML, "an HTML page", "download it again"),
    "xhtml": (XML + b'<html xmlns="http://www.w3.org/1999/xhtml">', "an HTML page", "download it again"),
    "s3": (XML + b"<Error><Code>AccessDenied</Code></Error>", "a server's error", "download it again"),
    "github": (b"404: Not Found", "a server's error", "download it again"),
    "gzip": (gzip.compress(b"\x08\x07\x12\x04"), "a gzip archive", "unpack it"),
    "xz": (lzma.compress(b"\x08\x07\x12\x04"), "an xz archive", "unpack it"),
    "tar": (tarred(), "a tar archive", "unpack it"),
    "zip": (zipped(readme_txt=b"x", deep_onnx=b"y"), "a zip archive, not a model", "it holds deep.onnx"),
    "cut zip": (zipped(readme_txt=b"x" * 99)[:60], "a zip archive that is damaged or cut off", "download it again"),
    "npz": (arrays(), "an .npz file", "--data"),
    "pickle": (pickle.dumps({"w": [1.0]}), "a pickle", "torch.export.save"),
    "old pickle": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "a pickle", "torch.export.save"),
    "safetensors": (b"\x40" + bytes(7) + b'{"w":{"dtype":"F32"}}', "a safetensors file", "torch.export.save"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file without a model", "model.save"),
    "json": (json.dumps({"layers": {"x": 1}}).encode(), "a JSON file", "the graph"),
    "core ml": (b"\x08\x04\x12\x0c\x0a\x0a\x0a\x05image\x1a\x01", "a Core ML model", "made from"),
    "engine": (b"ptrt\0\0\0\0" + bytes(24), "a TensorRT engine", "made from"),
    "openvino": (XML + b'<net name="Model0" version="11">', "a model of OpenVINO", "made from"),
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01", "a JPEG picture", "--data"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG picture", "--data"),
    "xml": (XML + b"<svg/>", "an XML file", "download it again"),
}


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".pb", ".prototxt", ".pt", ".h5", ""])
@pytest.mark.parametrize("kind", CASES)
def test_what_is_no_model_is_named(kind: str, suffix: str, tmp_path: Path) -> None:
    content, what, hint = CASES[kind]
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content)
    with pytest.raises(FormatError) as e:
        read(path)
    assert what in e.value.message, e.value
    assert hint in e.value.hint, e.value
    assert e.value.where == str(path)


@pytest.mark.parametrize("command", ["", "check", "inspect", "run", "benchmark"])
def test_every_command_names_it(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.mnn"
    path.write_bytes(LFS)
    out = [] if command else ["-o", str(tmp_path / "out.mnn")]
    assert run([*filter(None, [command]), str(path), *out]) == FormatError.exit_code
    assert "error: this is a Git LFS pointer, not the model" in capsys.readouterr().err


def test_it_is_named_for_a_framework_that_was_given_too(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(HTML)
    with pytest.raises(FormatError, match="an HTML page"):
        read(path, "onnx")


@pytest.mark.parametrize("content", [b"\n", b"\n\x80", b"\n\x03", b"\x08", b"\x12", b"PK\x03\x04", b"\x80", b"{"])
def test_a_few_bytes_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        detect(path)


@pytest.mark.parametrize("make", [lambda p: p.touch(), lambda p: p.mkdir(), os.mkfifo])
def test_what_holds_nothing_is_refused(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "model.onnx")
    with pytest.raises(FormatError):
        detect(tmp_path / "model.onnx")
