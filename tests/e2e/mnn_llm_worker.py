"""Runs folders of language models in MNN's own runtime. Started by the Python of an environment that has MNN.

    python mnn_llm_worker.py JOB...

A job is a folder with `job.json`: the `folder` of the model, `settings` for it, `texts` to encode, and `prompts`, each
a list of pieces of tokens that are run one after the other. `answer.json` gets the tokens of the texts and `length`
greedy ones behind each prompt, `logits.npz` the logits behind each piece, and those of the answer.
"""

import json
import sys
from pathlib import Path

import MNN.llm
import numpy as np


def run(job: Path) -> None:
    asked = json.loads((job / "job.json").read_text())
    model = MNN.llm.create(f"{asked['folder']}/config.json")
    model.set_config({"thread_num": 1, **asked["settings"]})
    model.load()
    answers, logits = [], []
    for pieces in asked["prompts"]:
        model.reset()
        rows = [last(model, piece) for piece in pieces]
        answer = []
        for _ in range(asked["length"]):
            answer.append(int(rows[-1].argmax()))
            rows.append(last(model, answer[-1:]))
        answers.append(answer)
        logits.append(np.stack(rows))
    np.savez(job / "logits.npz", *logits)
    texts = [list(model.tokenizer_encode(text)) for text in asked["texts"]]
    (job / "answer.json").write_text(json.dumps({"texts": texts, "answers": answers}))


def last(model, tokens: list[int]) -> np.ndarray:
    """The logits behind tokens."""
    return np.array(model.forward(tokens).read()).reshape(-1)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run(Path(argument))
