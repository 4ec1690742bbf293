"""Markdown as an independent parser with GitHub's tables reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from ci_results import HOSTILE, LEFT_OUT, PASSED, RESULTS, WRONG, hostile, texts
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats import _markdown, md
from minnow.report.formats.md import LIMIT, markdown
from minnow.workflow.result import Check, Results


def tables(text: str) -> list[list[list[Any]]]:
    """The tables of a text: rows of cells, each the inline tokens of the parser."""
    from markdown_it import MarkdownIt

    found: list[list[list[Any]]] = []
    for token in (
        tokens := iter(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text))
    ):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("td_open", "th_open"):
            found[-1][-1].append(next(tokens).children)
    return found


def shown(cell: Any) -> str:
    """The text of a cell; fails if it has any mark besides code."""
    assert {token.type for token in cell} <= {"text", "text_special", "code_inline"}, cell
    return "".join(token.content for token in cell)


def test_the_table_has_a_row_for_each_cell_with_all_metrics() -> None:
    (rows,) = tables(markdown(RESULTS))
    header, *body = [[shown(cell) for cell in row] for row in rows]
    assert header == [
        "model",
        "result",
        "file size",
        "nodes",
        "multiply-accumulates",
        "peak memory",
        "largest error",
        "latency / baseline",
    ]
    assert [row[:2] for row in body] == [
        ["digits", "✅ passed"],
        ["detector/half", "❌ failed"],
        ["text/int8", "❌ error"],
        ["old", "⏭️ skipped"],
    ]
    assert body[0][2:4] == ["5.00 MB → 2.50 MB (-50.0%)", "31 → 12 (-61.3%)"]
    assert body[1][7] == "1.250 (1.100 to 1.400)"


def test_details_are_folded_for_what_did_not_pass() -> None:
    text = markdown(RESULTS)
    assert re.findall("<summary>(.*?)</summary>", text) == ["text/int8: error", "detector/half: failed"]
    assert text.count("<details>") == text.count("</details>") == 2
    assert text.startswith("## Minnow: 1 error, 1 failed, 1 skipped, 1 passed\n")
    assert markdown(replace(RESULTS, cells=(PASSED, PASSED))).startswith("## Minnow: all 2 passed\n")
    assert markdown(replace(RESULTS, cells=())).startswith("## Minnow: no models\n")
    assert "4.5 s" in text
    assert " s</sub>" not in markdown(replace(RESULTS, started=""))


def test_a_long_report_is_cut_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIMIT < 2**20, "the limit of GitHub"
    monkeypatch.setattr(md, "LIMIT", 100_000)

    def big(number: int) -> Any:
        check = Check("verify:y", "failed", "verification-failed", "|" * 300, "`\n" * 5000)
        return replace(WRONG, model=f"model{number}", checks=(check,), log="log\n" * 4000)

    text = markdown(replace(RESULTS, cells=tuple(map(big, range(100)))))
    assert len(text.encode()) <= 100_000
    (rows,) = tables(text)
    assert len(rows) == 101
    left = re.search(r"The details of (\d+) more cells are left out", text)
    assert left is not None
    assert int(left[1]) + text.count("<details>") == 100


def test_rows_without_room_are_counted_and_the_worst_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(md, "LIMIT", 1300)
    (rows,) = tables(text := markdown(replace(RESULTS, cells=(LEFT_OUT, PASSED, *[PASSED] * 9, WRONG))))
    assert "detector/half" in {shown(row[0]) for row in rows}
    assert f"{12 - (len(rows) - 1)} more cells are left out" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    (rows,) = tables(_markdown.table(["a", "b"], [[_markdown.code(text), _markdown.text(text)]]))
    (code,), plain = rows[1] if _markdown.code(text) else ([None], rows[1][1])
    expected = _markdown.one_line(text).replace("\ud800", "")
    assert "".join(t.content for t in plain).replace("\ud800", "") == expected or text == "\ud800"
    assert code is None or code.type == "code_inline"


@hostile
@given(given_=random_results)
def test_hostile_texts_add_no_rows_cells_links_or_tags(given_: Results) -> None:
    text = markdown(given_)
    found = tables(text)
    if not given_.cells:
        assert not found
        return
    (rows,) = found
    assert len(rows) == len(given_.cells) + 1
    assert {len(row) for row in rows} == {len(rows[0])}
    for row in rows:
        for cell in row:
            shown(cell)
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        if token.type == "html_block":
            assert re.fullmatch(r"<details>\n<summary>[^<>]*</summary>\n?|</details>\n?|<sub>.*", token.content)
        types = {child.type for child in token.children or ()}
        assert not types & {"link_open", "image"}


@hostile
@given(given_=texts)
def test_a_block_of_code_holds_any_lines(given_: str) -> None:
    from markdown_it import MarkdownIt

    (token,) = MarkdownIt("commonmark").parse(_markdown.block(given_))
    assert token.type == "fence"
    assert token.content.strip("\n") == _markdown.plain(given_).strip("\n")


def test_a_file_name_with_marks_is_code() -> None:
    assert "<sub>Minnow 1.2.3 · ``a`b`` · 4.5 s</sub>" in markdown(replace(RESULTS, config="a`b"))
