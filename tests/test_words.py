"""Documentation, messages and comments use the field's words.

`WORDS` lists words that puzzle a reader who meets them for the first time, and what to write instead. They may not
appear in the pages, nor in strings, docstrings and comments of the product; names in code are not searched.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("minnow", "schema", "converter", "optimizer", "runtime", "workflow", "report", "kernels", "bench")

WORDS = {
    r"extents?": "dimension; size; shape",
    r"open (?:dim|dimension|size|axis|axes|shape)s?": "dynamic dimension",
    r"side files?": "companion weights file",
    r"crews?": "thread pool",
    r"(?:bears?|borne) with": "accept; ignore",
    r"would pass": "minimum passing tolerance",
    r"(?:mean|means|meant|do) harm": "malicious",
    r"peak of memory": "peak memory",
    r"most bytes at one time": "peak memory",
    r"judge(?:s|d)?|judg(?:e?ment|ing)": "compare; check",
    r"whoever|anybody|everybody": "say who: the caller, the user, another thread",
    r"nobody": "unused; unknown; no other reader",
    r"truths?|truth values?": "boolean",
    r"quanta|quantum": "quantized values; quantization step",
    r"remembers?": "state; keep",
    r"hangs? on": "depend on",
    r"spelled out": "written as several ops; decomposed",
    r"(?<!there )is no (?:array|file|model|picture|shape|tensor)": "is not a",
    r"time (?:was|is) over": "the timeout has passed",
    r"of late|for ever": "recently; endlessly",
    r"rounds of (?:a |its |the |all )?loops?": "iterations of a loop",
    r"mend(?:s|ed|ing)?": "fix",
}
"""Regular expressions of words to avoid, and what to use instead."""

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """The comments and strings of Python code, with the numbers of their lines; strings without a space are names."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
        if token.type == tokenize.COMMENT or (is_text and " " in token.string):
            yield token.start[0], token.string


def cpp_texts(source: str) -> Iterator[tuple[int, str]]:
    """The same for C and C++."""
    for pattern in (COMMENT, STRING):
        for found in pattern.finditer(source):
            if pattern is COMMENT or " " in found.group():
                yield source.count("\n", 0, found.start()) + 1, found.group()


def outside_of_code(page: str) -> str:
    """A page in Markdown with its code blanked out, except for help texts, which are prose."""
    blank = re.sub(r"`[^`\n]+`", lambda m: " " * len(m.group()), page)
    return re.sub(r"--[a-z-]+", lambda m: " " * len(m.group()), blank)


def found_in(texts: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> list[str]:
    rows = []
    for line, text in texts:
        plain = re.sub(r"`[^`]*`|--[a-z-]+|\{[^{}\n]*\}", " ", text)  # code in text keeps its names
        for word, instead in WORDS.items():
            if hit := re.search(rf"\b(?:{word})\b", plain, re.IGNORECASE):
                rows.append(f"{line + plain.count(chr(10), 0, hit.start())}: '{hit.group()}': rather {instead}")
    return rows


def any_word(text: str) -> bool:
    return re.search(rf"\b(?:{'|'.join(WORDS)})\b", text, re.IGNORECASE) is not None


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md"), ROOT / "dev"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_pages_use_plain_words(page: Path) -> None:
    found = found_in([(1, outside_of_code(page.read_text()))])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_messages_and_comments_use_plain_words(folder: str) -> None:
    rows = []
    readers = {".py": python_texts, ".cpp": cpp_texts, ".h": cpp_texts}
    files = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in readers]
    assert files, "the folder has been moved"
    for path in files:
        source = path.read_text()
        if any_word(source):
            found = found_in(readers[path.suffix](source))
            rows += [f"{path.relative_to(ROOT)}:{row}" for row in found]
    assert not rows, f"{len(rows)} places:\n" + "\n".join(rows)


def test_words_are_found_where_readers_meet_them() -> None:
    assert found_in(python_texts('x = extent  # of one\ny = "an extent"\nz = "extent"\n')) == [
        "2: 'extent': rather dimension; size; shape"
    ]
    assert len(found_in(python_texts('"""A crew.\n\nThe side file.\n"""\n# open dims\n'))) == 3
    assert len(found_in(cpp_texts('int extent;  // an extent\nfail("its extents %d");\n/* a\n crew */\n'))) == 3
    assert found_in([(1, outside_of_code("`extent` and --side-file\nan extent"))]) == [
        "2: 'extent': rather dimension; size; shape"
    ]
