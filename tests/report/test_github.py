"""What GitHub's runner makes of the report: annotations, the summary, outputs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from ci_results import PASSED, RESULTS, WRONG, hostile
from ci_results import results as random_results
from hypothesis import given

from minnow.cli._app import run
from minnow.report.formats import write_reports
from minnow.report.formats.github import github
from minnow.report.formats.md import markdown
from minnow.schema.errors import WriteError
from minnow.workflow.result import Check, Results
from minnow.workflow.rule import RULES


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands of an output, parsed as GitHub documents them: ::name key=value,key=value::data."""
    found = []
    for line in text.splitlines():
        if match := re.match(r"::([a-z-]+) ?(.*?)::(.*)$", line):
            properties = dict(pair.split("=", 1) for pair in match[2].split(",") if pair)
            for key, value in properties.items():
                properties[key] = value.replace("%3A", ":").replace("%2C", ",").replace("%0A", "\n").replace("%25", "%")
            found.append((match[1], properties, match[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")))
    return found


def test_annotations_stand_at_the_line_of_the_configuration_the_worst_first() -> None:
    found = commands(github(RESULTS))
    assert [name for name, _, _ in found] == ["error", "error", "error", "warning"]
    assert found[0][1] == {
        "file": "models/text.pt2",
        "line": "1",
        "title": "text/int8: The model contains unsupported operators.",
    }
    assert found[1][1]["file"] == "minnow.toml"
    assert found[1][1]["line"] == "9"
    assert found[1][2].startswith("0.25 is above the tolerance 0.001\nNodes: box, nms\n")
    assert github(replace(RESULTS, cells=(PASSED,))) == ""


def test_what_github_would_not_show_is_counted() -> None:
    checks = (
        *(Check(f"a{i}", "failed", "budget-bytes", "big") for i in range(14)),
        *(Check(f"b{i}", "warning", "verification-inconclusive", "?") for i in range(12)),
        *(Check(f"c{i}", "passed", "notice", f"note {i}") for i in range(11)),
        Check("worst", "error", "crashed", "gone"),
    )
    text = github(replace(RESULTS, cells=(replace(WRONG, checks=checks),)))
    names = [name for name, _, _ in commands(text)]
    assert names == ["error"] * 10 + ["warning"] * 10 + ["notice"] * 10
    assert "gone" in text.splitlines()[0]
    assert (
        text.splitlines()[-1].endswith("5 errors, 2 warnings, 1 notices")
        or "5 errors, 2 warnings" in text.splitlines()[-1]
    )


def test_summary_and_outputs_go_to_the_files_of_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary, outputs = tmp_path / "summary", tmp_path / "output"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    write_reports(RESULTS, ["github"])
    assert capsys.readouterr().out == github(RESULTS)
    assert summary.read_text() == "before\n" + markdown(RESULTS) + "\n"
    lines = dict(line.split("=") for line in outputs.read_text().splitlines())
    assert lines == {
        "passed": "1",
        "skipped": "1",
        "warning": "0",
        "failed": "1",
        "error": "1",
        "exit-code": str(RESULTS.exit_code),
    }


def test_outside_of_github_only_the_annotations_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.chdir(tmp_path)
    write_reports(RESULTS, ["github"])
    assert capsys.readouterr().out.count("::error ") == 3
    assert not list(tmp_path.iterdir())


def test_a_summary_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary")
    with pytest.raises(WriteError, match="/nowhere/summary"):
        write_reports(RESULTS, ["github"])


def test_a_message_that_cannot_be_shown_is_replaced_by_the_rule() -> None:
    check = Check("convert", "failed", "budget-bytes", "\x00 \u2028")
    (found,) = commands(github(replace(RESULTS, cells=(replace(WRONG, checks=(check,)),))))
    assert found[2].startswith(RULES["budget-bytes"].title)


@hostile
@given(given_=random_results)
def test_hostile_texts_start_no_command_of_their_own(given_: Results) -> None:
    text = github(given_)
    found = commands(text)
    assert all(
        line.startswith(("::error file=", "::warning file=", "::notice file=", "Minnow: "))
        for line in text.splitlines()
    )
    assert len([line for line in text.splitlines() if line.startswith("::")]) == len(found)
    for name, properties, data in found:
        assert name in ("error", "warning", "notice")
        assert set(properties) == {"file", "line", "title"}
        assert data.strip()


def test_annotations_leave_the_standard_output_to_a_json_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    Path("minnow.toml").write_text('[models.m]\nsource = "missing.onnx"\n')
    assert run(["ci", "--check", "--report", "github", "--format", "json"]) != 0
    said = capsys.readouterr()
    assert json.loads(said.out)["cells"][0]["status"] != "passed"
    assert "::error file=minnow.toml,line=1," in said.err
    assert run(["ci", "--check", "--report", "github"]) != 0
    assert "::error file=minnow.toml,line=1," in capsys.readouterr().out
