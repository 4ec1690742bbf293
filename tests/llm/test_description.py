"""`llm.json` is read as it was written, and what is wrong in it is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minnow.llm.description import DESCRIPTION, Description
from minnow.schema.errors import FormatError

_SMALL = Description("llama", "small", 512, 64, 5, 8, 4, 8, 512, bos=1, eos=[2], chat_template="{{ 'é' }}")


@pytest.mark.parametrize("made", [_SMALL, replace(_SMALL, kind="embed", pooling="mean", normalize=True, bos=None)])
def test_round_trip(made: Description, tmp_path: Path) -> None:
    (tmp_path / DESCRIPTION).write_text(made.text(), encoding="utf-8")
    assert Description.read(tmp_path) == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "another format"),
        ({"layers": 0}, "'layers' is '0', not a whole number"),
        ({"layers": True}, "'layers'"),
        ({"vocab_size": 1e9}, "'vocab_size'"),
        ({"eos": 2}, "not a list of tokens"),
        ({"eos": [512]}, "not in the vocabulary"),
        ({"kv_heads": 3}, "numbers of heads"),
        ({"kind": "sing"}, "one of generate, embed, rerank"),
        ({"name": None}, "not a text"),
        ({"image": 3}, "not a table"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], message: str) -> None:
    table = {**json.loads(_SMALL.text()), **changes}
    with pytest.raises(FormatError, match=message):
        Description.of(table)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read"):
        Description.read(tmp_path)
    (tmp_path / "model.mnn").touch()
    with pytest.raises(FormatError, match="this is a file, not the folder of a language model"):
        Description.read(tmp_path / "model.mnn")
    (tmp_path / DESCRIPTION).write_text("[" * 100_000)
    with pytest.raises(FormatError, match="not JSON"):
        Description.read(tmp_path)
    table = json.loads(_SMALL.text())
    del table["heads"]
    with pytest.raises(FormatError, match="missing") as caught:
        Description.of(table)
    assert "heads" in caught.value.why
