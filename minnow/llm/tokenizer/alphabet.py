"""Bytes as printable characters: the alphabet of byte-level vocabularies, as GPT-2 chose it."""

from __future__ import annotations


def _characters() -> list[str]:
    """The character of each byte: itself where it can be seen, else one of those from U+0100."""
    seen = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return [chr(byte) if byte in seen else chr(next(hidden)) for byte in range(256)]


CHARACTERS = _characters()
BYTES = {c: byte for byte, c in enumerate(CHARACTERS)}
_TO = {byte: c for byte, c in enumerate(CHARACTERS) if chr(byte) != c}


def to_alphabet(text: str) -> str:
    """The bytes of a text in UTF-8, a character each."""
    return text.encode().decode("latin-1").translate(_TO)


def from_alphabet(token: str) -> bytes:
    """The bytes that a token stands for. A token with other characters, an added one, stands for its own text."""
    try:
        return bytes([BYTES[c] for c in token])
    except KeyError:
        return token.encode()
