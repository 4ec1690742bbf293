"""Who asks the registry for an op gets it, whatever has been imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("asked", ["get('Conv').name == 'Conv'", "len(all_ops()) > 100"])
def test_the_registry_finds_the_ops_by_itself(asked: str) -> None:
    source = f"""
import sys
from minnow.schema.registry import interpreter, verify
from minnow.schema.registry.op import all_ops, get
assert "minnow.schema.ops" not in sys.modules
assert {asked}
"""
    subprocess.run([sys.executable, "-c", source], check=True)
