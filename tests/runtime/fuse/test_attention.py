"""Attention in the spellings of exporters: computed by one node, with the numbers of onnxruntime."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
from attention_spelling import FUSED, LEFT
from onnx_spelling import Case, Spelling, check

from minnow.runtime import _engine


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", FUSED, ids=lambda case: case.__name__)
def test_attention_is_one_node(case: Case, threads: int, tmp_path: Path) -> None:
    ops = check(case, str(tmp_path), threads)
    assert "FusedAttention" in ops
    assert not ops & {"MatMul", "Softmax", "Transpose", "Expand", "Split", "Slice", "Gather"}


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case.__name__)
def test_what_is_not_attention_is_left(case: Case, tmp_path: Path) -> None:
    assert "FusedAttention" not in check(case, str(tmp_path), 1)


def test_a_row_with_no_key_left_is_not_a_number(tmp_path: Path) -> None:
    def none_left(s: Spelling) -> str:
        scores = s.MatMul(s.input(2, 4), s.input(4, 20))
        condition = s.constant(np.arange(2)[:, None] > np.zeros(20), np.bool_)
        return s.MatMul(s.Softmax(s.Where(condition, scores, s.constant(-np.inf)), axis=-1), s.input(20, 4))

    assert "FusedAttention" in check(none_left, str(tmp_path), 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ["avx512", "avx2", "sse4"])
def test_every_instruction_set(isa: str) -> None:
    environment = {**os.environ, "MINNOW_ISA": isa}
    found = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in found.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [isa]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for spelled in (*FUSED, *LEFT):
            check(spelled, scratch, 2)
    sys.stdout.write(_engine.isa())
