"""Real models: the story that is known of one, and answers that are those of transformers from the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from language_model_files import STORIES, STORY, smollm2

from minnow import convert
from minnow.llm.model import LanguageModel
from minnow.llm.tokenizer import Tokenizer

_PROMPTS = (
    "What is the capital of France?", "Count to five.", "Write a haiku about rain.", "Who wrote Hamlet?",
    "Translate 'good morning' to Spanish.", "What is 17 + 25?", "Name three primary colors.", "What is a noun?",
    "Explain photosynthesis in one sentence.", "List the days of the week.", "What does DNA stand for?",
    "Give me a recipe for pancakes.", "Why is the sky blue?", "Say hello in French.", "At what heat does water boil?",
    "Tell me a short joke.", "What is Python?", "Summarize: The cat sat on the mat.", "Is 7 a prime number?",
    "Who was the first person on the moon?",
)  # fmt: skip
_ANSWER = 64


def _greedy(model: LanguageModel, tokens: list[int], count: int, ends: set[int]) -> list[int]:
    sequence, answer = model.sequence(), []
    new = tokens
    while len(answer) < count:
        new = [int(np.argmax(model.step([(new, sequence, 1)])[-1]))]
        answer += new
        if new[0] in ends:
            break
    sequence.close()
    return answer


def test_the_known_story(tmp_path: Path) -> None:
    convert(STORIES, output=tmp_path)
    model = LanguageModel.load(tmp_path, cache="f32", threads=1)
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    answer = _greedy(model, [1], 256, {1, 2})
    assert tokenizer.decode([1, *answer]).strip().startswith(STORY)


@pytest.mark.slow
def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    """The same greedy tokens for 20 prompts, and logits that are as near as the cache in float16 lets them be."""
    import torch
    import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
    from transformers import AutoModelForCausalLM

    path = smollm2()
    convert(path, output=tmp_path)
    model = LanguageModel.load(tmp_path, cache="f32", threads=2)
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    ends = {2}
    for prompt in _PROMPTS:
        text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        tokens = tokenizer.encode(text)
        with torch.no_grad():
            want = theirs(torch.tensor([tokens])).logits[0].numpy()
            made = theirs.generate(torch.tensor([tokens]), max_new_tokens=_ANSWER, do_sample=False)[0].tolist()
        sequence = model.sequence()
        got = model.step([(tokens, sequence, len(tokens))])
        sequence.close()
        assert np.abs(got - want).max() < 1e-3 * np.abs(want).max(), prompt
        answer = _greedy(model, tokens, _ANSWER, ends)
        assert answer == made[len(tokens) :][: len(answer)], prompt
