"""Graphs that come close to a choice between layouts, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "assign_layout": [("", chain("%y: f32[1,4,2,2] = Exp(%x)", params="%x: f32[1,4,2,2]"))],
}  # fmt: skip
