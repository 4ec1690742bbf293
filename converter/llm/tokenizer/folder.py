"""Folders without a tokenizer.json: what else describes their vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minnow.converter.llm.tokenizer import form
from minnow.converter.llm.tokenizer.form import Json
from minnow.converter.llm.tokenizer.llama2c import from_llama2c
from minnow.converter.llm.tokenizer.mnn_text import from_mnn_text
from minnow.converter.llm.tokenizer.sentencepiece import from_sentencepiece
from minnow.converter.llm.tokenizer.split_rule import RULES
from minnow.converter.llm.tokenizer.tiktoken import from_tiktoken
from minnow.schema.errors import FormatError

LARGEST = 1 << 28
"""Bytes of a file of a tokenizer."""


def from_folder(path: Path) -> str:
    """The content of a tokenizer.json for the vocabulary in a folder.

    Raises:
        FormatError: there is none, or it is damaged.
        UnsupportedError: it is of a kind that is not supported.
    """
    settings = _settings(path)
    for name, read in _READERS.items():
        file = path / name
        if file.is_file():
            try:
                return json.dumps(read(file, settings), ensure_ascii=False) + "\n"
            except FormatError as e:
                e.where = e.where or str(file)
                raise
    raise FormatError("the folder has no tokenizer", where=str(path), hint=f"one of {', '.join(_READERS)} is needed")


def _settings(path: Path) -> dict[str, Any]:
    file = path / "tokenizer_config.json"
    if not file.is_file():
        return {}
    try:
        found = json.loads(_bytes(file))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FormatError("the settings of the tokenizer are no JSON object", where=str(file))
    return found


def _bytes(file: Path) -> bytes:
    if file.stat().st_size > LARGEST:
        raise FormatError("the file is too large", where=str(file), why=f"more than {LARGEST >> 20} MiB")
    return file.read_bytes()


def _text(file: Path) -> str:
    try:
        return _bytes(file).decode()
    except UnicodeDecodeError:
        raise FormatError("the file is no text in UTF-8", where=str(file)) from None


def _pieces(file: Path, settings: dict[str, Any]) -> Json:
    data = _bytes(file)
    if data[:64].isascii() and data[:1] not in (b"\n", b"\x0a"):  # Llama 3's file of that name is one of tiktoken
        return from_tiktoken(data, RULES["llama3"], _special(settings))
    t5 = "T5" in str(settings.get("tokenizer_class", ""))
    adds_bos = bool(settings.get("add_bos_token", not t5))
    return from_sentencepiece(data, adds_bos=adds_bos, adds_eos=bool(settings.get("add_eos_token", t5)))


def _special(settings: dict[str, Any]) -> dict[str, int]:
    """The special tokens that tokenizer_config.json lists by their ids."""
    table = settings.get("added_tokens_decoder")
    found: dict[str, int] = {}
    for id, entry in table.items() if isinstance(table, dict) else ():
        if not id.isdigit() or not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise FormatError("'added_tokens_decoder' is wrong", where="tokenizer_config.json")
        found[entry["content"]] = int(id)
    return found


def _byte_level(file: Path, settings: dict[str, Any]) -> Json:
    merges_file = file.with_name("merges.txt")
    if not merges_file.is_file():
        raise FormatError("merges.txt is missing beside vocab.json", where=str(file.parent))
    try:
        vocabulary = json.loads(_text(file))
    except (ValueError, RecursionError):
        vocabulary = None
    if not isinstance(vocabulary, dict):
        raise FormatError("the vocabulary is no JSON object", where=str(file))
    lines = _text(merges_file).split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    if "CLIP" in str(settings.get("tokenizer_class", "")):
        return form.clip(vocabulary, merges)
    rule = RULES["qwen2" if "Qwen" in str(settings.get("tokenizer_class", "")) else "gpt-2"]
    model = {**form.byte_level_bpe([], merges), "vocab": vocabulary}
    added = [form.added_token(id, text, special=True) for text, id in _special(settings).items()]
    return form.whole(model, added=added, pre_tokenizer=form.splits(rule.patterns), decoder=[form.BYTE_LEVEL])


def _bert(file: Path, settings: dict[str, Any]) -> Json:
    tokens = [line.rstrip("\r") for line in _text(file).split("\n")]
    tokens = tokens[:-1] if tokens and not tokens[-1] else tokens
    return form.bert(tokens, lowercase=bool(settings.get("do_lower_case", True)))


_READERS: dict[str, Callable[[Path, dict[str, Any]], Json]] = {
    "tokenizer.model": _pieces,
    "spiece.model": _pieces,
    "sentencepiece.bpe.model": _pieces,
    "vocab.json": _byte_level,
    "vocab.txt": _bert,
    "qwen.tiktoken": lambda file, settings: from_tiktoken(_bytes(file), RULES["qwen2"], _special(settings)),
    "tokenizer.txt": lambda file, settings: from_mnn_text(_bytes(file)),
    "tokenizer.bin": lambda file, settings: from_llama2c(_bytes(file)),
}
"""What reads each file, the first one that is there."""
