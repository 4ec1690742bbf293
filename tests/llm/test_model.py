"""`LanguageModel` beside the same model in plain numpy: prefill, steps, batches, prefixes, rewinding, limits."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.shared_models import SHARED, needs_models
from llm.small_llama import Llama

from minnow.llm.cache import CacheFullError
from minnow.llm.model import CHUNK, LanguageModel, rounded
from minnow.schema.errors import DeadlineError, FormatError, UsageError
from minnow.schema.ir import DType

Array = np.ndarray[Any, Any]
STORIES = SHARED / "llm" / "stories260K"
ROOM = {"f32": 2e-4, "f16": 5e-3, "int8": 5e-2}


def text(length: int, seed: int = 0, vocabulary: int = 60) -> list[int]:
    return [int(t) for t in np.random.default_rng(seed).integers(0, vocabulary, length)]


@pytest.fixture(scope="module")
def llama() -> Llama:
    return Llama.random()


@pytest.fixture
def model(llama: Llama) -> LanguageModel:
    return llama.load(DType.F32)


def close(got: Array, want: Array, room: float) -> None:
    np.testing.assert_allclose(got, want, atol=room * np.abs(want).max(initial=0), rtol=0)


@pytest.mark.parametrize("cache", ROOM)
@pytest.mark.parametrize("window", [0, 7])
def test_prefill_and_steps_are_the_reference(llama: Llama, cache: str, window: int) -> None:
    own = llama.windowed(window)
    model, tokens = own.load(cache=cache), text(41)
    want = own.logits(tokens)
    sequence = model.sequence()
    close(model.step([(tokens[:30], sequence, 30)]), want[:30], ROOM[cache])
    for at in range(30, 41):
        close(model.step([(tokens[at : at + 1], sequence, 1)]), want[at : at + 1], ROOM[cache])
    assert sequence.tokens == tokens


def test_steps_are_the_prefill(llama: Llama) -> None:
    tokens = text(40)
    whole, single = llama.load(DType.F32), llama.load(DType.F32)
    want = whole.step([(tokens, whole.sequence(), 40)])
    sequence = single.sequence()
    rows = [single.step([(tokens[i : i + 1], sequence, 1)])[0] for i in range(40)]
    close(np.array(rows), want, 2e-6)


def test_sequences_in_a_batch_are_those_alone(llama: Llama) -> None:
    """Some begin, some go on, some want no logits; the next steps mix them otherwise."""
    texts = [text(n, seed) for seed, n in enumerate((23, 1, 40, 17))]
    want = [llama.logits(t) for t in texts]
    model = llama.load(DType.F32, threads=2)
    sequences = [model.sequence() for _ in texts]
    at = [0] * 4
    for shares in ([9, 1, 30, 0], [1, 0, 10, 16], [13, 0, 0, 1]):
        asked = [min(2, n) for n in shares]
        work = [(texts[i][at[i] : at[i] + n], sequences[i], asked[i]) for i, n in enumerate(shares) if n]
        logits, first = model.step(work), 0
        for i, n in enumerate(shares):
            at[i] += n
            close(logits[first : first + asked[i]], want[i][at[i] - asked[i] : at[i]], 2e-4)
            first += asked[i]
        assert first == len(logits)


def test_long_texts_are_taken_in_pieces() -> None:
    llama = Llama.random(3, layers=1)
    model, tokens = llama.load(DType.F32), text(2 * CHUNK + 70)
    other = text(5, 1)
    got = model.step([(tokens, model.sequence(), 600), (other, model.sequence(), 2)])
    close(got[:600], llama.logits(tokens)[-600:], 2e-4)
    close(got[600:], llama.logits(other)[-2:], 2e-4)


def test_the_beginning_of_a_text_is_computed_once(llama: Llama, model: LanguageModel) -> None:
    tokens = text(50)
    first = model.sequence(tokens)
    assert len(first) == 0
    want = model.step([(tokens, first, 1)])
    second = model.sequence(tokens)
    assert len(second) == 48
    close(model.step([(tokens[48:], second, 1)]), want, 2e-6)
    first.close()
    second.close()
    changed = [*tokens[:20], (tokens[20] + 1) % 60, *tokens[21:]]
    third = model.sequence(changed)
    assert len(third) == 16
    close(model.step([(changed[16:], third, 1)]), llama.logits(changed)[-1:], 2e-4)


def test_rewinding_and_forks(llama: Llama, model: LanguageModel) -> None:
    tokens = text(30)
    sequence = model.sequence()
    model.step([(tokens, sequence, 0)])
    other = sequence.fork()
    sequence.rewind(11)
    changed = [*tokens[:11], *text(9, 5)]
    close(model.step([(changed[11:], sequence, 1)]), llama.logits(changed)[-1:], 2e-4)
    longer = [*tokens, *text(4, 6)]
    close(model.step([(longer[30:], other, 1)]), llama.logits(longer)[-1:], 2e-4)
    ends = [*changed, 3], [*longer, 4]
    got = model.step([([3], sequence, 1), ([4], other, 1)])
    close(got, np.array([llama.logits(t)[-1] for t in ends]), 2e-4)


def test_what_is_wrong_is_said_before_anything_runs(model: LanguageModel) -> None:
    sequence, closed = model.sequence(), model.sequence()
    closed.close()
    model.step([([1, 2, 3], sequence, 0)])
    context = model.description.context
    wrong: list[tuple[list[Any], str]] = [
        ([([1] * (context - 2), sequence, 1)], "1,101 tokens are more than the model's context of 1,100"),
        ([([60], sequence, 1)], "not one of the 60"),
        ([([1, -1], sequence, 1)], "not one of the 60"),
        ([([1], sequence, 2)], "logits of 2 tokens"),
        ([([1], sequence, -1)], "logits of -1 tokens"),
        ([([1], sequence, 1), ([2], sequence, 1)], "twice"),
        ([([1], closed, 1)], "closed"),
    ]
    for work, match in wrong:
        with pytest.raises(UsageError, match=match):
            model.step(work)
    assert sequence.tokens == [1, 2, 3]
    assert model.step([]).shape == (0, 60)
    assert model.step([([4], sequence, 0)]).shape == (0, 60)
    assert model.step([([], sequence, 0)]).shape == (0, 60)


def test_a_context_can_be_filled_to_its_end() -> None:
    llama = Llama.random(4, layers=1, context=37)
    model, tokens = llama.load(DType.F32), text(37)
    sequence = model.sequence()
    close(model.step([(tokens, sequence, 1)]), llama.logits(tokens)[-1:], 2e-4)
    with pytest.raises(UsageError, match="38 tokens"):
        model.step([([1], sequence, 1)])


def test_after_a_failed_run_the_sequences_are_as_before(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama.load(DType.F32)
    tokens, more = text(20), text(30, 1)
    first, second = model.sequence(), model.sequence()
    model.step([(tokens, first, 0)])
    run = model.session.run

    def fails(feeds: Any) -> Any:
        run(feeds)  # the caches are written already
        raise DeadlineError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(model.session, "run", fails)
        with pytest.raises(DeadlineError):
            model.step([(more, first, 1), (more, second, 1)])
    assert (first.tokens, second.tokens, second.blocks) == (tokens, [], [])
    assert model.blocks is not None
    assert model.blocks.used == 2
    want = llama.logits([*tokens, 7])[-1:]
    close(model.step([([7], first, 1)]), want, 2e-4)


def test_the_cache_has_a_limit(llama: Llama) -> None:
    model = llama.load(DType.F32, cached_tokens=64)
    one, two = model.sequence(), model.sequence()
    model.step([(text(33), one, 0)])
    with pytest.raises(CacheFullError):
        model.step([(text(40, 1), two, 1)])
    assert len(two) == 0
    one.close()
    close(model.step([(text(40, 1), two, 1)]), llama.logits(text(40, 1))[-1:], 2e-4)


def test_models_that_are_no_step_graphs(llama: Llama) -> None:
    from dataclasses import replace

    session = llama.load().session
    with pytest.raises(FormatError, match="no caches in blocks of 32 tokens"):
        LanguageModel(session, replace(llama.description(), block=32))
    with pytest.raises(UsageError, match="cache is 'f8'"):
        LanguageModel(session, llama.description(), cache="f8")


def test_few_numbers_are_planned_for() -> None:
    assert [rounded(n) for n in (0, 1, 7, 8, 9, 11, 16, 17, 21, 512, 513)] == [0, 1, 7, 8, 10, 12, 16, 20, 24, 512, 640]
    assert all(n <= rounded(n) <= max(8, n * 5 // 4 + 1) for n in range(5000))
    assert len({rounded(n) for n in range(1025)}) < 40


@needs_models
@pytest.mark.parametrize("cache", ["f32", "f16"])
def test_the_known_story(cache: str) -> None:
    known = (STORIES / "readme.md").read_text().split("-t 0.0\n")[1].partition("\n```")[0]
    llama = Llama.read(STORIES / "stories260K.bin")
    model, pieces = llama.load(cache=cache, threads=1), _pieces(STORIES / "tok512.bin")
    sequence, tokens = model.sequence(), [1]
    while len(tokens) < 256:
        tokens.append(int(model.step([(tokens[-1:], sequence, 1)]).argmax()))
    told = b"".join(pieces[t] for t in tokens[1:]).decode().strip()
    assert told.startswith(known[:300])
    close(model.step([(tokens[-1:], sequence, 1)]), llama.logits(tokens)[-1:], ROOM[cache])


def _pieces(path: Path) -> list[bytes]:
    """The texts of the tokens of a file of llama2.c."""
    data, at, pieces = path.read_bytes(), 4, []
    while at < len(data):
        (length,) = struct.unpack_from("<i", data, at + 4)
        piece = data[at + 8 : at + 8 + length]
        pieces.append(bytes([int(piece[3:5], 16)]) if piece[:3] == b"<0x" else piece)
        at += 8 + length
    return pieces
