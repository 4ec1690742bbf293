"""How much a language model may have in its cache."""

from __future__ import annotations

import os

import pytest

from minnow.llm.description import Description
from minnow.llm.folder import room


@pytest.mark.parametrize(("cache", "size"), [("f32", 4), ("f16", 2), ("int8", 1)])
def test_the_cache_has_room_for_four_contexts_in_a_quarter_of_the_memory(cache: str, size: int) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    small = Description("llama", "small", 100, 64, layers=2, heads=4, kv_heads=2, head_size=16, context=256)
    assert room(small, cache) == 1024
    large = Description("llama", "large", 100, 64, layers=80, heads=64, kv_heads=64, head_size=128, context=1 << 30)
    bytes_of_a_token = 2 * 80 * 64 * 128 * size
    assert memory / 4 - bytes_of_a_token < room(large, cache) * bytes_of_a_token <= memory / 4
