"""MNN's own runtime for language models as a judge, in an environment that has it, which MINNOW_MNN_PYTHON names."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from mnn_oracle import PYTHON

WORKER = Path(__file__).parents[1] / "e2e" / "mnn_llm_worker.py"


@dataclass
class Answers:
    """What MNN gave.

    Attributes:
        texts: tokens of the texts.
        answers: greedy tokens behind each prompt.
        logits: for each prompt, behind each of its pieces and each token of its answer, [rows, vocab].
    """

    texts: list[list[int]]
    answers: list[list[int]]
    logits: list[np.ndarray]


def run(
    folder: Path,
    work: Path,
    prompts: Sequence[Sequence[Sequence[int]]] = (),
    length: int = 0,
    texts: Sequence[str] = (),
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Answers:
    """Runs the model in a folder.

    Args:
        work: a folder for the files in between.
        prompts: each a list of pieces of tokens, which are run one after the other.
        length: tokens of the answers.
        texts: to encode.
        settings: of the runtime.
    """
    job = work / "job"
    job.mkdir(parents=True)
    asked = {"folder": str(folder), "settings": dict(settings), "prompts": prompts, "length": length, "texts": texts}
    (job / "job.json").write_text(json.dumps(asked))
    done = subprocess.run(
        [PYTHON, str(WORKER), str(job)], capture_output=True, text=True, errors="replace", timeout=600, check=False
    )
    if done.returncode or not (job / "answer.json").exists():
        raise AssertionError(
            f"MNN did not run {folder}: exit status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}"
        )
    answer = json.loads((job / "answer.json").read_text())
    logits = np.load(job / "logits.npz")
    return Answers(answer["texts"], answer["answers"], [logits[f"arr_{i}"] for i in range(len(logits.files))])
