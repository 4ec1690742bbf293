"""The document around reports: nothing of a model can become HTML or a script, and nothing is asked of the network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from minnow.report.page.skeleton import Section, badge, document, json_text, table, text

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "&lt;b&gt; &amp",
    "a\u2028b\u2029c",
    "\x00\x1b[31m\ud800",
    "]]>",
    "javascript:alert(1)",
]


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = [""]
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "input", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1], []).append(data)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_cannot_become_html_or_scripts(name: str) -> None:
    def made(of: str) -> str:
        section = Section("one", of, table([of], [[text(of)]], caption=of) + badge("good", of), note=of)
        return document(of, [section], subtitle=of, footer=of, data={"names": [of, {of: of}]})

    page, plain = Page(made(name)), Page(made("plain"))
    assert [(tag, set(attrs)) for tag, attrs in page.elements] == [(tag, set(attrs)) for tag, attrs in plain.elements]
    assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on") or a == "style"]
    (data, _) = page.texts["script"]
    assert json.loads(data) == [name, {name: name}]
    assert made(name).encode("utf-8", "strict")


def test_text_shows_what_changes_the_direction() -> None:
    assert text("a\u202eb") == "a\\u202eb"
    assert json_text({"a": "</script>\u2028"}) == '{"a":"\\u003c/script\\u003e\\u2028"}'
    with pytest.raises(ValueError):
        json_text(float("nan"))


def test_the_policy_allows_exactly_the_pages_own_styles_and_scripts() -> None:
    page = Page(document("t", [Section("a", "A", "<p>x</p>")]))
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    rules = {rule.split()[0]: rule.split()[1:] for rule in (policy or "").split(";")}
    assert rules["default-src"] == ["'none'"]
    assert "unsafe" not in (policy or "")
    for rule, tag in (("style-src", "style"), ("script-src", "script")):
        assert {*rules[rule]} == {
            f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in page.texts[tag]
        }
    for tag, attrs in page.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            assert (attrs.get(name) or "#").startswith(("#", "data:,")), (tag, attrs)
    assert not re.findall(r"url\(|@import|https?:", " ".join(page.texts["style"] + page.texts["script"]))
