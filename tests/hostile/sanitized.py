"""The engine under AddressSanitizer and UBSan, on files that mean harm and on damaged ones: ./dev sanitize.

MINNOW_OPEN_AND_RUN and MINNOW_CHANGE_TEXTS name the programs, which that command builds from open_and_run.c and
change_texts.cpp.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_tokenizer_damage
from damage_worker import damaged_bytes, damaged_tables
from engine_oracle import model_of
from graph_grower import grown
from hostile_files import SOUND, all_files
from language_model_files import STORIES

import minnow
from minnow.schema.mnn import encode

PROGRAM = os.environ["MINNOW_OPEN_AND_RUN"]
SETTINGS = {
    # What is refused anyway is not to be tried; a process that grows beyond that is ended.
    "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=2048:hard_rss_limit_mb=1024:"
    "quarantine_size_mb=16:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def opened(paths: list[Path], seconds: float) -> dict[str, int]:
    """The code that each file came to; all of them, or the program has crashed."""
    done = subprocess.run(
        [PROGRAM, *map(str, paths)], capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        env={**os.environ, **SETTINGS},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-6000:]}"
    rows = [line.split(" ", 1) for line in done.stdout.splitlines() if line[:1].isdigit()]
    return {Path(rest.split(": ")[0]).stem: int(code) for code, rest in rows}


@pytest.mark.parametrize("name", list(all_files()))
def test_hostile(name, tmp_path):
    path = tmp_path / f"{name}.mnn"
    path.write_bytes(all_files()[name]())
    assert opened([path], 90)[name] in ((0,) if name in SOUND else (3, 6))


@pytest.mark.parametrize("seed", [3, 17, 39])
def test_damaged(seed, tmp_path):
    sound = encode(model_of(grown(seed, 25).graph))
    paths = [tmp_path / f"{i}.mnn" for i in range(60)]
    for i, path in enumerate(paths):
        rng = np.random.default_rng(i)
        path.write_bytes(damaged_tables(sound, rng) if i % 2 else damaged_bytes(sound, rng))
    codes = opened(paths, 120)
    assert len(codes) == len(paths)
    assert set(codes.values()) <= {0, 2, 3, 6}
    assert 0 in codes.values()


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_texts(seed, tmp_path):
    """libminnow_text, on files of tokenizers and a language model."""
    minnow.convert(STORIES, output=tmp_path / "model", verify=False)
    paths = [tmp_path / f"{i}.json" for i, _ in enumerate(test_tokenizer_damage.files())]
    for path, whole in zip(paths, test_tokenizer_damage.files(), strict=True):
        path.write_text(json.dumps(whole))
    count = 20_000 if os.environ.get("MINNOW_SANITIZE_ALL") else 500
    command = [os.environ["MINNOW_CHANGE_TEXTS"], str(count), str(seed), tmp_path / "model", *paths]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env={**os.environ, **SETTINGS}
    )
    assert done.returncode == 0, done.stderr[-6000:]
    times = dict(map(int, line.split()) for line in done.stdout.splitlines())
    assert set(times) <= {0, 2, 3, 6}, times
    assert times[0] > count / 10
    assert times[6] > count / 10
