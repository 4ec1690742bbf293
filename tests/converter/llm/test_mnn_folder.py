"""Folders of MNN-LLM, and the graphs in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from minnow.converter.formats import detect, is_mnn
from minnow.converter.llm.checkpoint import open_checkpoint
from minnow.schema.errors import UnsupportedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The names of such a folder, and how such a graph begins."""
    for name in ("llm.mnn", "llm.mnn.weight", "config.json", "llm_config.json", "tokenizer.txt"):
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "llm.mnn").write_bytes(bytes([32, 0, 0, 0, 0, 0, 20, 0]))
    return tmp_path


def test_the_folder_and_its_graph_are_named(folder: Path) -> None:
    for path in (folder, folder / "llm.mnn"):
        assert detect(path).name == "llm"
        assert not is_mnn(path)
        with pytest.raises(UnsupportedError, match="a folder of MNN-LLM") as info:
            open_checkpoint(path)
        assert "convert the checkpoint" in info.value.hint


def test_a_model_of_that_name_is_a_model(folder: Path) -> None:
    (folder / "llm_config.json").unlink()
    assert is_mnn(folder / "llm.mnn")


def test_the_graph_alone_can_be_asked_for(folder: Path) -> None:
    assert is_mnn(folder / "llm.mnn", "mnn")
