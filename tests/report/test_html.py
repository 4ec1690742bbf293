"""The HTML page of many models: complete without scripts, and safe with any text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ci_results import PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.report.formats import format_of, write_reports
from minnow.report.formats.html import html
from minnow.workflow.result import Results

VOID = {"meta", "link", "input", "br", "rect"}


class Page(HTMLParser):
    """Elements of a page; fails if one is not closed where it should be.

    Attributes:
        elements: (tag, attributes) of all.
        text: what is shown, by tag.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self.feed(source)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack:
            self.texts.append((self.stack[-1], data))

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        names = {name.rstrip("_"): value for name, value in attributes.items()}
        return [a for t, a in self.elements if t == tag and all(a.get(n) == v for n, v in names.items())]

    def shown(self, tag: str) -> list[str]:
        return [text for t, text in self.texts if t == tag]


def test_each_cell_has_a_line_with_details() -> None:
    page = Page(html(RESULTS))
    cells = page.all("details", class_="card cell")
    assert [c["data-status"] for c in cells] == ["passed", "failed", "error", "skipped"]
    assert [text for text in page.shown("span") if text in {c.name for c in RESULTS.cells}] == [
        c.name for c in RESULTS.cells
    ]
    assert page.shown("h1") == ["Minnow: 1 error, 1 failed, 1 skipped, 1 passed"]
    assert {"0.25 is above the tolerance 0.001", "2 operators are not supported"} <= {t for _, t in page.texts}
    assert "row 1\nrow 2" in page.shown("pre")
    assert "read\noptimize\nwrite" in page.shown("pre")
    assert "mnnconvert models/detector.tflite -o out/detector.half.mnn" in page.shown("pre")
    assert len(page.all("button", class_="copy")) == 1


def test_the_matrix_links_every_cell() -> None:
    page = Page(html(RESULTS))
    assert {a["href"] for a in page.all("a") if "title" in a} == {
        f"#{c['id']}" for c in page.all("details", class_="card cell")
    }
    assert [t for t in page.shown("th") if t in ("default", "half", "int8")] == ["default", "half", "int8"]
    one = Page(html(replace(RESULTS, cells=(PASSED,))))
    assert not [a for a in one.all("a") if "title" in a], "one variant needs no matrix"


def test_bars_are_in_proportion_to_source_and_output() -> None:
    page = Page(html(replace(RESULTS, cells=(PASSED,))))
    widths = [float(r["width"]) for r in page.all("rect")]
    assert widths[:2] == [100, 50]
    assert widths[2:4] == [100, round(100 * 12 / 31, 2)]
    assert {s["aria-label"] for s in page.all("svg")} >= {"-50.0% from the source"}


def test_scripts_find_what_they_filter_and_sort_by() -> None:
    page = Page(html(RESULTS))
    cell = page.all("details", id="c1")[0]
    for word in ("detector/half", "verification-failed", "nms", "budget:bytes"):
        assert word in cell["data-search"]
    keys = json.loads(cell["data-sort"])
    assert (keys["bytes"], keys["increase"], keys["latency"]) == (3_000_000, 0.5, 1.25)
    assert {o["value"] for o in page.all("option")} - {"order"} <= set(keys)
    assert {b["data-status"] for b in page.all("button") if "data-status" in b} == {
        "passed",
        "failed",
        "error",
        "skipped",
    }


def test_the_page_asks_the_network_for_nothing() -> None:
    page = Page(html(RESULTS))
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    addresses = [v for _, a in page.elements for n, v in a.items() if n in ("href", "src", "action", "srcset")]
    assert all(v.startswith(("#", "data:")) for v in addresses)
    assert not [a for _, a in page.elements if "style" in a or any(n.startswith("on") for n in a)]


def test_the_page_of_a_model_is_linked_if_it_stands_beside(tmp_path: Path) -> None:
    target = tmp_path / "all.html"
    write_reports(RESULTS, [f"html={target}"])
    assert "everything about this model" not in target.read_text()
    (tmp_path / "detector.half.html").write_text("x")
    write_reports(RESULTS, [f"html={target}"])
    (link,) = [a["href"] for a in Page(target.read_text()).all("a") if a["href"].endswith(".html")]
    assert (tmp_path / link).is_file()


def test_no_models_and_many_models() -> None:
    assert Page(html(replace(RESULTS, cells=()))).shown("h1") == ["Minnow: no models"]
    many = tuple(replace((PASSED, WRONG)[i % 2], model=f"m{i}", log="x" * 100_000, reproduce="") for i in range(200))
    text = html(replace(RESULTS, cells=many))
    assert text.count('class="card cell"') == 200
    assert len(text) < 5_000_000, "the log is cut"


@hostile
@given(given_=random_results)
def test_hostile_texts_add_no_elements(given_: Results) -> None:
    text = format_of("html").text(given_, Path())
    page = Page(text)
    assert len(page.all("details", class_="card cell")) == len(given_.cells)
    assert len(page.all("script")) == 2
    assert {t for t, _ in page.elements} <= {
        *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "section", "nav", "ul"),
        *("li", "a", "div", "span", "p", "h1", "h2", "h3", "button", "input", "label", "select", "option", "details"),
        *("summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "code", "pre", "dl", "dt", "dd", "svg"),
        *("rect", "script"),
    }
    assert not [a for _, a in page.elements if any(n.startswith("on") or n == "style" for n in a)]
    assert not re.search("[\u202a-\u202e]", text)


@pytest.mark.parametrize("name", ["cells.js", "cells.css"])
def test_the_assets_are_part_of_the_page(name: str) -> None:
    from minnow.report.page.skeleton import asset

    assert asset(name).strip() in html(RESULTS)
