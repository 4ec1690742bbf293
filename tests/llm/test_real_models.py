"""Real models: the story that is known of one, and answers that are those of transformers from the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from language_model_files import STORIES, STORY, smollm2

from minnow import convert
from minnow.llm.model import LanguageModel
from minnow.llm.tokenizer import Tokenizer
from minnow.options.generate import LanguageOptions

_PROMPTS = (
    "What is the capital of France?", "Count to five.", "Write a haiku about rain.", "Who wrote Hamlet?",
    "Translate 'good morning' to Spanish.", "What is 17 + 25?", "Name three primary colors.", "What is a noun?",
    "Explain photosynthesis in one sentence.", "List the days of the week.", "What does DNA stand for?",
    "Give me a recipe for pancakes.", "Why is the sky blue?", "Say hello in French.", "At what heat does water boil?",
    "Tell me a short joke.", "What is Python?", "Summarize: The cat sat on the mat.", "Is 7 a prime number?",
    "Who was the first person on the moon?",
)  # fmt: skip
_ANSWER = 64


def _greedy(
    model: LanguageModel, prompts: list[list[int]], count: int, ends: set[int], seen: dict[int, list[int]] | None = None
) -> list[list[int]]:
    """Greedy answers to all prompts, which share the steps of the model. `seen` gets hashes of the logits of each."""
    sequences = [model.sequence() for _ in prompts]
    answers: list[list[int]] = [[] for _ in prompts]
    new = dict(enumerate(prompts))
    while new:
        logits = model.step([(tokens, sequences[i], 1) for i, tokens in new.items()])
        for i, row, token in zip(list(new), logits, logits.argmax(-1).tolist(), strict=True):
            if seen is not None:
                seen.setdefault(i, []).append(hash(row.tobytes()))
            answers[i].append(token)
            new[i] = [token]
            if token in ends or len(answers[i]) == count:
                del new[i]
    for sequence in sequences:
        sequence.close()
    return answers


def test_the_known_story(tmp_path: Path) -> None:
    convert(STORIES, output=tmp_path)
    model = LanguageModel.load(tmp_path, cache="f32", threads=1)
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    (answer,) = _greedy(model, [[1]], 256, {1, 2})
    assert tokenizer.decode([1, *answer]).strip().startswith(STORY)


@pytest.mark.slow
def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    """The same greedy tokens for 20 prompts, with the default precision of language models, and logits that are near.

    Written together, token by token, logits are bit for bit those of each text alone and at once.

    A text is what transformers writes greedily if each of its tokens has the largest of its logits behind those before:
    so one run over a finished answer proves what as many runs as it has tokens would.
    """
    import torch
    import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
    from transformers import AutoModelForCausalLM

    path = smollm2()
    convert(path, output=tmp_path, verify=False)
    model = LanguageModel.load(tmp_path, cache="f32", threads=2, precision=LanguageOptions().precision)
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    asked = [tokenizer.encode(f"<|im_start|>user\n{p}<|im_end|>\n<|im_start|>assistant\n") for p in _PROMPTS]
    seen: dict[int, list[int]] = {}
    answers = _greedy(model, asked, _ANSWER, {2}, seen)
    assert any(len(answer) == _ANSWER for answer in answers)
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    integers = "avx512_vnni" in Path("/proc/cpuinfo").read_text().split()  # else sums depend on the number of rows
    for number, (prompt, tokens, answer) in enumerate(zip(_PROMPTS, asked, answers, strict=True)):
        assert len(answer) == _ANSWER or answer[-1] == 2, prompt
        text = tokens + answer[:-1]
        with torch.no_grad():
            want = theirs(torch.tensor([text])).logits[0].numpy()
        chosen = want[len(tokens) - 1 :].argmax(-1).tolist()
        ties = np.diff(np.partition(want[len(tokens) - 1 :], -2)[:, -2:])[:, 0]
        assert answer == chosen, f"{prompt}: {[(i, ties[i]) for i in range(len(answer)) if answer[i] != chosen[i]]}"
        sequence = model.sequence()
        got = model.step([(text, sequence, len(text))])
        sequence.close()
        if integers:
            assert [hash(row.tobytes()) for row in got[len(tokens) - 1 :]] == seen[number], prompt
        # 16 bits of each row, in 30 layers: 0.0012 is the most of these prompts.
        assert np.abs(got - want).max() < 2e-3 * np.abs(want).max(), prompt
