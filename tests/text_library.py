"""libminnow_text as a C program has it: called with ctypes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sysconfig
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARKS, PARSE = 1, 2
Callback = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def built() -> Path:
    """The library that `./dev build` has made."""
    (build,) = (ROOT / "build").glob(f"cp{sysconfig.get_config_var('py_version_nodot')}-*/")
    return build / "runtime/text/libminnow_text.so"


def installed(folder: Path) -> Path:
    """A prefix with both libraries, this one built as a project of its own."""
    build = built().parents[2]
    prefix = folder / "prefix"
    run("cmake", "--install", build, "--component", "library", "--prefix", prefix)
    run("cmake", "-S", ROOT / "runtime/text", "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder / "build", "-j", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2"))
    run("cmake", "--install", folder / "build", "--prefix", prefix)
    return prefix


class Request(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("prompt", c_char_p), ("prompt_size", c_size_t), ("flags", c_int32),
        ("tokens", POINTER(c_int32)), ("num_tokens", c_size_t), ("max_tokens", c_int32), ("temperature", c_double),
        ("top_k", c_int32), ("top_p", c_double), ("min_p", c_double), ("repetition_penalty", c_double),
        ("presence_penalty", c_double), ("frequency_penalty", c_double), ("penalty_window", c_int32),
        ("seed", c_int64), ("stop", POINTER(c_char_p)), ("num_stop", c_size_t),
    ]  # fmt: skip


class Result(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("reason", c_int32), ("tokens", POINTER(c_int32)), ("num_tokens", c_size_t),
        ("prompt_tokens", c_size_t), ("cached_tokens", c_size_t), ("prompt_seconds", c_double),
        ("answer_seconds", c_double),
    ]  # fmt: skip


class TextError(Exception):
    """What a function returned that was not MINNOW_OK."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Library:
    """The functions of the library, with errors as exceptions."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.minnow_text_last_error.restype = c_char_p
        self.c.minnow_text_tokenizer.restype = c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.c, name)(*arguments)
        if code:
            raise TextError(code, self.c.minnow_text_last_error().decode())


class CTokenizer:
    def __init__(self, library: Library, path: Path) -> None:
        self._library, self.handle = library, c_void_p()
        library.call("minnow_tokenizer_load", os.fsencode(path), byref(self.handle))

    def encode(self, text: str | bytes, flags: int = MARKS | PARSE) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        count = c_size_t()
        ids = (c_int32 * (2 * len(data) + 8))()
        self._library.call("minnow_tokenizer_encode", self.handle, data, c_size_t(len(data)), flags, ids,
                          c_size_t(len(ids)), byref(count))  # fmt: skip
        return list(ids[: count.value])

    def decode(self, ids: list[int]) -> str:
        given, size, count = (c_int32 * len(ids))(*ids), c_size_t(), c_size_t(len(ids))
        self._library.call("minnow_tokenizer_decode", self.handle, given, count, None, 0, byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._library.call("minnow_tokenizer_decode", self.handle, given, count, text, size, byref(size))
        return text.raw.decode()

    def pieces(self, ids: list[int]) -> list[str]:
        """What streams for each token, and at the end."""
        decoder, text, size = c_void_p(), c_void_p(), c_size_t()
        self._library.call("minnow_decoder_create", self.handle, byref(decoder))
        found = []
        for id in [*ids, None]:
            if id is None:
                self._library.call("minnow_decoder_finish", decoder, byref(text), byref(size))
            else:
                self._library.call("minnow_decoder_push", decoder, id, byref(text), byref(size))
            found.append(ctypes.string_at(text, size.value).decode())
        self._library.c.minnow_decoder_free(decoder)
        return found

    def close(self) -> None:
        self._library.c.minnow_tokenizer_free(self.handle)


class CModel:
    def __init__(self, library: Library, folder: str | Path) -> None:
        self._library, self.handle = library, c_void_p()
        library.call("minnow_text_load", os.fsencode(folder), None, byref(self.handle))

    def generate(
        self, prompt: str | list[int], *, stop: tuple[str, ...] = (), end_after: int = 0, **options: Any
    ) -> tuple[str, list[int], Result]:
        """The text of an answer, its tokens, and the result."""
        pieces: list[str] = []

        def on_piece(_: Any, piece: Any, size: int) -> int:
            pieces.append(ctypes.string_at(piece, size).decode())
            return int(len(pieces) == end_after)

        request = Request(
            ctypes.sizeof(Request), None, 0, MARKS | PARSE, None, 0, 0, 0.8, 40, 0.95, 0.05, 1, 0, 0, 64, -1
        )
        if isinstance(prompt, str):
            request.prompt, request.prompt_size = prompt.encode(), len(prompt.encode())
        else:
            request.tokens, request.num_tokens = (c_int32 * len(prompt))(*prompt), len(prompt)
        texts = (c_char_p * len(stop))(*(text.encode() for text in stop))
        request.stop, request.num_stop = texts, len(stop)
        for name, value in options.items():
            setattr(request, name, value)
        result = Result(ctypes.sizeof(Result))
        self._library.call("minnow_text_generate", self.handle, byref(request), Callback(on_piece), None, byref(result))
        return "".join(pieces), list(result.tokens[: result.num_tokens]), result

    def close(self) -> None:
        self._library.c.minnow_text_free(self.handle)
