"""Texts that several formats share: numbers with units, changes, and characters that may be shown."""

from __future__ import annotations

import math
import re

from minnow.workflow.metric import METRICS, shown

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def plain(text: str) -> str:
    """The text without control characters, colors and changes of direction, and with "\\n" as the end of lines."""
    return _CONTROL.sub("", re.sub("\x1b\\[[0-9;?]*[ -/]*[@-~]", "", re.sub("\r\n?", "\n", text)))


def one_line(text: str) -> str:
    """The text as one line."""
    return " ".join(plain(text).split())


def clipped(text: str, most: int) -> str:
    """The beginning of a text, with a note of how much is left out."""
    return text if len(text) <= most else f"{text[:most].rstrip()}\n... ({len(text) - most} more characters)"


def last_part(text: str, most: int) -> str:
    """The end of a text, with a note of how much is left out."""
    return text if len(text) <= most else f"({len(text) - most} characters left out)\n...{text[-most:]}"


def title_of(metric: str) -> str:
    """The title of a metric, also of one that only a newer version knows."""
    return METRICS[metric].title if metric in METRICS else metric.replace("_", " ")


def quantity(metric: str, value: float | None) -> str:
    """The value of a metric with its unit; "" for None."""
    return "" if value is None else shown(value, METRICS[metric].unit if metric in METRICS else "")


def change(before: float | None, after: float | None) -> str:
    """The relative change as a percentage; "" if there is none to show."""
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return ""
    if before == after:
        return "="
    if not before:
        return "from 0"
    percent = 100 * (after - before) / abs(before)
    return f"{percent:+.1f}%" if abs(percent) >= 0.05 else f"{percent:+.1g}%"


def exact(value: float) -> str:
    """A number without loss, whole numbers without a point."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))
