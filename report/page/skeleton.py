"""The HTML document of a report: one file that needs no other, and asks the network for nothing.

A report gives sections; the document around them has a header with a switch between light and dark, a table of
contents, and a content security policy that allows exactly its own styles and scripts. Styles may therefore not stand
in `style` attributes. The classes of `base.css` are for all reports:

    card                    a box; `grid` puts several beside each other
    wide                    scrolls sideways where a table is wider than the window
    num                     a cell or column of numbers
    good, warn, bad         colors of text; `badge` with one of these is a small label
    muted                   what matters less
    facts                   a list (dl) of names with values

All that comes from a model or a user passes `text` (for HTML) or `json_text` (for scripts).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from minnow.report.markup import text as text

_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src {styles}; script-src {scripts}"
)


@dataclass(frozen=True)
class Section:
    """A part of a report with a heading.

    Attributes:
        id: for links to it; letters and hyphens.
        title: the heading, plain text.
        body: HTML.
        note: a line below the heading, plain text.
    """

    id: str
    title: str
    body: str
    note: str = ""


def json_text(value: Any) -> str:
    """A value as JSON that can stand in a script element: no character of it has a meaning in HTML."""
    plain = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def document(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    summary: str = "",
    footer: str = "",
    data: Mapping[str, Any] | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    css: str = "",
) -> str:
    """The whole document.

    Args:
        title: the heading, plain text.
        sections: in this order; the table of contents has them, too.
        subtitle: a line below the heading, plain text.
        summary: HTML between heading and sections.
        footer: a line at the end, plain text.
        data: JSON values for scripts, each in an element with the id "data-" and its name.
        css: more styles, from code.
        styles, scripts: names of more files of the folder `assets`, besides `base.css` and `base.js`.
    """
    sheets = [*(asset(name) for name in ("base.css", *styles)), *([css] if css else [])]
    js = [asset(name) for name in ("base.js", *scripts)]
    policy = _POLICY.format(styles=" ".join(map(_hash, sheets)), scripts=" ".join(map(_hash, js)))
    links = "".join(f'<li><a href="#{s.id}">{text(s.title)}</a></li>' for s in sections)
    rows = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">',
        f"<title>{text(title)}</title>",
        *(f"<style>{style}</style>" for style in sheets),
        "</head>",
        "<body>",
        '<a class="skip" href="#main">Skip to the content</a>',
        '<header class="top">',
        f'<div class="heading"><h1>{text(title)}</h1>{_line(subtitle)}</div>',
        '<div class="tools"><button type="button" id="theme" hidden>Dark</button></div>',
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        "</header>",
        '<main id="main" tabindex="-1">',
        summary,
        *map(_section, sections),
        "</main>",
        f"<footer>{text(footer)}</footer>",
        *(
            f'<script type="application/json" id="data-{name}">{json_text(value)}</script>'
            for name, value in (data or {}).items()
        ),
        *(f"<script>{script}</script>" for script in js),
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(filter(None, rows)) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "", right: int = 1) -> str:
    """A table of HTML cells; columns from index `right` on are numbers. The header and the caption are plain text."""

    def cell(kind: str, k: int, content: str) -> str:
        scope = ' scope="col"' if kind == "th" else ""
        return f"<{kind}{scope}{' class=num' if k >= right else ''}>{content}</{kind}>"

    head = "".join(cell("th", k, text(name)) for k, name in enumerate(header))
    body = "".join(f"<tr>{''.join(cell('td', k, c) for k, c in enumerate(row))}</tr>" for row in rows)
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(caption or "Table")}">'
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def badge(kind: str, label: str) -> str:
    """A small colored label; `kind` is "good", "warn" or "bad"."""
    return f'<span class="badge {kind}">{text(label)}</span>'


@cache
def asset(name: str) -> str:
    """The text of a file of the folder `assets`."""
    found = (files(__package__) / "assets" / name).read_text(encoding="utf-8")
    # A hash of the policy is that of what stands between the tags, after the browser has made one of \r\n.
    return f"\n{found}" if found.endswith("\n") else f"\n{found}\n"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _line(subtitle: str) -> str:
    return f'<p class="muted">{text(subtitle)}</p>' if subtitle else ""


def _section(section: Section) -> str:
    return (
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">'
        f'<h2 id="{section.id}-title">{text(section.title)}</h2>{_line(section.note)}{section.body}</section>'
    )
