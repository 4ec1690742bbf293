"""Text of models and users in HTML and SVG."""

from __future__ import annotations

import html
import re

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text(value: object) -> str:
    """Any text for HTML or SVG, also in an attribute.

    Characters that neither has are replaced, and those that change the direction of what follows are shown as their
    numbers, since they could make one name look like another.
    """
    clean = _DIRECTIONS.sub(lambda m: f"\\u{ord(m.group()):04x}", _CONTROLS.sub("\ufffd", str(value)))
    return html.escape(clean, quote=True)
