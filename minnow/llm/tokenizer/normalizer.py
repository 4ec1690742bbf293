"""Normalizers: what becomes of a text before it is split."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import partial

from minnow.llm.tokenizer.alphabet import to_alphabet
from minnow.llm.tokenizer.charsmap import Charsmap
from minnow.llm.tokenizer.part import Kinds, Part
from minnow.llm.tokenizer.pattern import Pattern

Normalizer = Callable[[str], str]
NORMALIZERS: Kinds[Normalizer] = Kinds("normalizer")
SPACES = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""Unicode's white space. Python's own idea of it has the separators from U+001C to U+001F, too."""

_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


for _form in ("NFC", "NFD", "NFKC", "NFKD"):
    NORMALIZERS[_form] = lambda part, form=_form: partial(unicodedata.normalize, form)  # type: ignore[misc]


@NORMALIZERS.add("Prepend")
def _(part: Part) -> Normalizer:
    prefix = part.text("prepend")
    return lambda text: prefix + text if text else text


@NORMALIZERS.add("Replace")
def _(part: Part) -> Normalizer:
    pattern, content = Pattern.read(part), part.text("content")
    return lambda text: pattern.replaced(text, content)


@NORMALIZERS.add("Lowercase")
def _(part: Part) -> Normalizer:
    return lowered


@NORMALIZERS.add("StripAccents")
def _(part: Part) -> Normalizer:
    return lambda text: "".join(c for c in text if c < "\u0300" or unicodedata.category(c)[0] != "M")


@NORMALIZERS.add("Strip")
def _(part: Part) -> Normalizer:
    left, right = part.flag("strip_left", True), part.flag("strip_right", True)

    def strip(text: str) -> str:
        text = text.lstrip(SPACES) if left else text
        return text.rstrip(SPACES) if right else text

    return strip


@NORMALIZERS.add("Precompiled")
def _(part: Part) -> Normalizer:
    return Charsmap(part.text("precompiled_charsmap"), part.where)


@NORMALIZERS.add("ByteLevel")
def _(part: Part) -> Normalizer:
    return to_alphabet


@NORMALIZERS.add("BertNormalizer")
def _(part: Part) -> Normalizer:
    clean, ideographs = part.flag("clean_text", True), part.flag("handle_chinese_chars", True)
    lower = part.flag("lowercase", True)
    accents = part.flag("strip_accents", None)
    strip = lower if accents is None else accents
    changed: dict[int, str | None] = {}

    def change(c: str) -> str | None:
        if clean and (c in "\0\ufffd" or (c not in "\t\n\r" and is_other(c))):
            return None
        if clean and c in SPACES:
            return " "
        return f" {c} " if ideographs and any(low <= ord(c) <= high for low, high in _IDEOGRAPHS) else c

    def bert(text: str) -> str:
        for c in set(text):
            if ord(c) not in changed:
                changed[ord(c)] = change(c)
        text = text.translate(changed)
        if strip:
            text = "".join(
                c for c in unicodedata.normalize("NFD", text) if c < "\u0300" or unicodedata.category(c) != "Mn"
            )
        return lowered(text) if lower else text

    return bert


@NORMALIZERS.add("Sequence")
def _(part: Part) -> Normalizer:
    steps = [NORMALIZERS.read(step) for step in part.parts("normalizers")]

    def sequence(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return sequence


def is_other(c: str) -> bool:
    """Whether a character is a control, format or private one. Those that Unicode does not know yet are none."""
    return unicodedata.category(c) in ("Cc", "Cf", "Co")


def lowered(text: str) -> str:
    """Each character in lower case by itself: Python's own has a rule for a sigma at the end of a word."""
    return "".join(c.lower() for c in text) if "Σ" in text else text.lower()
