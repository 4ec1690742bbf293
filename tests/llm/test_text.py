"""The text of an answer, by pieces: whatever they are, it ends in front of a stop string."""

from __future__ import annotations

import pytest
from fake_llm import ByteStream
from hypothesis import given
from hypothesis import strategies as st

from minnow.llm.text import Text


def pieces(text: str, stop: list[str]) -> tuple[list[str], str | None]:
    made, out = Text(ByteStream(), stop), []
    for byte in text.encode():
        out.append(made.put(byte))
        if made.stopped is not None:
            break
    out.append(made.end())
    assert made.text == "".join(out)
    return out, made.stopped


@given(st.text("abcä", max_size=30), st.lists(st.text("abcä", min_size=1, max_size=4), max_size=3))
def test_it_ends_in_front_of_the_first_stop_string(text: str, stop: list[str]) -> None:
    given, stopped = pieces(text, stop)
    # The first stop string that is complete counts; of those that end there, the one that begins first.
    ends = [n for n in range(1, len(text) + 1) if any(text[:n].endswith(s) for s in stop)]
    if not ends:
        assert ("".join(given), stopped) == (text, None)
        return
    whole = text[: ends[0]]
    longest = max((s for s in stop if whole.endswith(s)), key=len)
    assert ("".join(given), stopped) == (whole[: len(whole) - len(longest)], longest)


def test_only_what_may_become_a_stop_string_is_kept() -> None:
    given, _ = pieces("one <end of it", ["<end>"])
    assert given == [*"one ", "", "", "", "", "<end ", *"of it", ""]


@pytest.mark.parametrize("text", ["a\N{EURO SIGN}b", "\N{GRINNING FACE}"])
def test_no_piece_splits_a_character(text: str) -> None:
    given, _ = pieces(text, [])
    assert "".join(given) == text
    assert all("�" not in piece for piece in given)


def test_what_never_became_a_character() -> None:
    made = Text(ByteStream())
    assert made.put(0xE2) == ""
    assert made.end() == "�"
