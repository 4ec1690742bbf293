"""Generated pages are those that the registries give."""

import subprocess
import sys
from pathlib import Path


def test_generated_pages_are_not_stale():
    script = Path(__file__).parents[1] / "docs" / "generate.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
