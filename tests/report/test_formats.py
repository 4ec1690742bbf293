"""Writing reports: what is checked before a run, files, and what no report shows."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ci_results import PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given
from hypothesis import strategies as st

from minnow.report.formats import check_reports, format_of, kinds, write_reports
from minnow.schema.errors import UsageError, WriteError
from minnow.workflow.result import Results


def test_every_module_registers_the_kind_of_its_name() -> None:
    assert {"junit", "sarif", "md", "github", "gitlab", "json", "openmetrics"} <= set(kinds())
    for kind in kinds():
        chosen = format_of(kind)
        assert chosen.kind == kind
        assert chosen.about
        assert bool(chosen.file) != bool(chosen.deliver)


@pytest.mark.parametrize(
    ("specs", "what"),
    [
        (["junit"], "needs a file.*--report junit=junit.xml"),
        (["junit="], "needs a file"),
        (["github=x"], "takes no file"),
        (["pdf=x.pdf"], "unknown kind of report 'pdf'.*junit"),
        (["_text=x"], "unknown kind"),
        (["md=missing/x.md"], "folder of the output does not exist"),
        (["md=a", "json=a"], "given twice"),
        (["github", "github"], "given twice"),
        (["md=-"], "standard output is not supported"),
    ],
)
def test_mistakes_are_found_before_the_run(
    specs: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        check_reports(specs)
    import re

    assert re.search(what, str(caught.value), re.DOTALL)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused_as_a_target(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="a folder"):
        check_reports([f"md={tmp_path}"])


def test_several_reports_in_one_run(tmp_path: Path) -> None:
    write_reports(RESULTS, [f"{kind}={tmp_path / format_of(kind).file}" for kind in kinds() if format_of(kind).file])
    assert {path.name for path in tmp_path.iterdir()} == {format_of(kind).file for kind in kinds()} - {""}
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == RESULTS.exit_code


def test_a_report_can_go_to_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_reports(RESULTS, [f"md={path}"])
        assert os.read(reader, 10) == b"## Minnow:"
    finally:
        os.close(reader)


@pytest.mark.parametrize("kind", kinds())
def test_no_absolute_path_of_the_current_folder_is_shown(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    check = replace(
        WRONG.checks[1], message=f"{here}/m.onnx differs", details=f"in {here}/m.onnx", nodes=(f"{here}/n",)
    )
    cell = replace(
        WRONG,
        source=f"{here}/m.onnx",
        output=f"{here}/m.mnn",
        checks=(check,),
        log=f"{here}/x",
        reproduce=f"a {here}/b",
    )
    results = replace(RESULTS, cells=(cell,), config=f"{here}/minnow.toml")
    text = format_of(kind).text(results, tmp_path)
    assert here not in text
    assert kind == "openmetrics" or "m.onnx" in text or "minnow.toml" in text


@pytest.mark.parametrize("kind", kinds())
def test_reports_without_a_start_do_not_differ_between_runs(kind: str, tmp_path: Path) -> None:
    again = replace(PASSED, seconds={"read": 9.0}, attempts=2, worker="w", cached=True, log="took 3 s")
    again = replace(again, checks=tuple(replace(c, seconds=c.seconds + 1) for c in again.checks))
    first = replace(RESULTS, started="", host="", cells=(PASSED, WRONG))
    second = replace(first, seconds=99.0, host="other", cells=(again, WRONG))
    assert format_of(kind).text(first, tmp_path) == format_of(kind).text(second, tmp_path)
    if kind == "junit":
        assert format_of(kind).text(RESULTS, tmp_path) != format_of(kind).text(replace(RESULTS, started=""), tmp_path)


@hostile
@given(given_=random_results, kind=st.sampled_from(kinds()))
def test_any_results_give_a_report_that_can_be_written(given_: Results, kind: str) -> None:
    text = format_of(kind).text(given_, Path())
    text.encode()
    assert text.endswith("\n") or not text
    assert "\x1b" not in text
