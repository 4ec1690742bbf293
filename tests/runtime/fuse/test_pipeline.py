"""The tables of the engine's fusions: what is declared is run, once, and each row says why it stands where it does."""

from __future__ import annotations

import re
from pathlib import Path

FUSE = Path(__file__).parents[3] / "runtime/src/fuse"
# A slim build goes without some: MINNOW_IF(condition, function).
ROW = re.compile(r'\{"(\w+)",\s*(?:MINNOW_IF\([^,]*,\s*)?(\w+)\)?,\s*(nullptr|"\w+"),\s*((?:"[^"]*"\s*)+)\}')


def test_every_fusion_has_its_place_and_a_reason() -> None:
    declared = set(re.findall(r"^void (\w+)\(PlanGraph& graph\);", (FUSE / "pipeline.h").read_text(), re.MULTILINE))
    declared.remove("fuse_for_all")  # which goes through them
    assert len(declared) > 10
    rows = ROW.findall((FUSE / "pipeline.cpp").read_text())
    assert sorted(name for name, *_ in rows) == sorted({*declared, "drop_unread"})
    for name, function, _, reason in rows:
        assert name == function
        assert len(reason) > 20, f"{name} has no reason"
