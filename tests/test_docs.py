"""The pages say what is so: generated parts are fresh, examples run, links lead somewhere."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])

sys.path.append(str(ROOT / "bench"))


def blocks(page: str, language: str) -> list[str]:
    """The code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_generated_pages_are_not_stale() -> None:
    script = ROOT / "docs" / "generate.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


TABLE = """
| threads | model | minnow ms | / mnn | / ort | / best | start s | / best | peak MB | / best |
|---|---|---|---|---|---|---|---|---|---|
| 1 | a<b | 10.00 | 0.50 | 0.80 | 0.80 | 0.1 | 0.30 | 9 | 0.4 |
| 1 | slow | 3.00 |  | 1.25 | 1.25 | 0.1 | 0.30 | 9 | 0.4 |
| 1 | geometric mean | | **0.50** | **1.00** | **1.00** |  |  |  |  |
| 2 | a<b | 6.00 | 0.40 | 0.90 | 0.90 | 0.1 | 0.30 | 9 | 0.4 |
"""


def test_the_chart_has_a_bar_for_every_time_of_the_table() -> None:
    from chart import draw, mean

    tree = ET.fromstring(draw(TABLE))
    bars = [(r.get("class"), float(r.get("width", 0))) for r in tree.findall("{*}rect") if r.get("rx") is None]
    unit = bars[0][1]
    relative = [(name, round(width / unit, 2)) for name, width in bars]
    assert relative == [("minnow", 1.0), ("ort", 1.25), ("mnn", 2.0), ("minnow", 1.0), ("ort", 0.8)]
    texts = [t.text for t in tree.findall("{*}text")]
    assert {"a<b", "slow", "Minnow 10.0 ms", "1.25", "2.00", "0.80"} <= set(texts)
    assert mean(TABLE, 1) == "1.00"


def test_the_chart_stays_within_its_frame_in_both_color_schemes() -> None:
    svg = (ROOT / "docs" / "speed.svg").read_text()
    assert "prefers-color-scheme: dark" in svg
    tree = ET.fromstring(svg)
    width, height = float(tree.get("width", 0)), float(tree.get("height", 0))
    assert len(tree.findall("{*}rect")) > 40
    for rect in tree.findall("{*}rect"):
        x, y, w, h = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    assert all(0 <= float(t.get("y", -1)) <= height for t in tree.findall("{*}text"))


def test_the_readme_has_its_sections_in_order() -> None:
    text = (ROOT / "README.md").read_text()
    marks = [
        "# Minnow",
        "## Install",
        "./dev demo",
        "```console",
        "docs/speed.svg",
        "| correctness |",
        "| graph size |",
    ]
    marks += ["| speed |", "## What is supported", "## Links"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert len(text.splitlines()) < 145, "long tables belong into docs/"


def test_the_readme_shows_what_convert_prints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from minnow.cli._app import app

    (console,) = blocks("README.md", "console")
    _, command, *shown = re.split(r"^\$ mnnconvert (.*)\n", console, flags=re.MULTILINE)
    shutil.copytree(DIGITS, tmp_path / "examples" / "digits", ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["convert", *command.split()])
    assert done.exit_code == 0, done.output

    def without_measurements(text: str) -> list[str]:
        text = re.sub(r"\d\.\d\de-\d\d|onnxruntime [\d.]+|\d\.\d\d s", "#", text)
        return [line.rstrip() for line in text.strip().splitlines()]

    assert without_measurements(shown[0]) == without_measurements(done.stdout)


def test_the_page_on_ci_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from minnow.cli._app import run

    (config,), (console,) = blocks("docs/ci.md", "toml"), blocks("docs/ci.md", "console")
    command, _, shown = console.partition("\n")
    shutil.copy(DIGITS / "digits.onnx", tmp_path)
    (tmp_path / "minnow.toml").write_text(config)
    monkeypatch.chdir(tmp_path)
    stdout = io.StringIO()
    with redirect_stdout(stdout):
        assert run(command.removeprefix("$ mnnconvert ").split()) == 5
    printed = [row for row in stdout.getvalue().splitlines() if not row.startswith("::")]

    def without_measurements(rows: list[str]) -> list[str]:
        return [re.sub(r"\d\.\d\de-\d\d|\d+\.\d(?: s|$)", "#", row).rstrip() for row in rows]

    assert without_measurements(printed) == without_measurements(shown.splitlines())


def test_the_python_page_runs_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("digits.onnx", "digits_test.npz"):
        shutil.copy(DIGITS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    code = blocks("docs/python.md", "python")
    assert len(code) >= 7
    exec(compile("\n".join(code), "docs/python.md", "exec"), {})


def test_the_c_page_compiles(tmp_path: Path) -> None:
    (program,) = blocks("docs/c.md", "c")
    (tmp_path / "program.c").write_text(program)
    include = f"-I{ROOT / 'runtime' / 'include'}"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", include]
    done = subprocess.run(["cc", *flags, tmp_path / "program.c"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def anchors(page: Path) -> set[str]:
    """The names by which headings are linked."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_page_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in text]
    assert not missing
