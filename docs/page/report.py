"""Reports of `mnnconvert ci`."""

from __future__ import annotations

import json

from page.markdown import table


def ci_rules() -> str:
    """The rules of reports: why a check did not pass, or what a note is about."""
    from minnow.workflow.rule import RULES

    rows = [
        [f"`{r.name}`", r.level, str(r.exit_code) if r.exit_code else "", f"{r.title} {r.help}", ", ".join(r.tags)]
        for r in RULES.values()
    ]
    about = (
        "Every check of `mnnconvert ci` that does not pass, and every note, has one of these rules. Their names are "
        "stable: SARIF, JUnit, GitLab and JSON reports have them as rule, type or name of the check. The exit code is "
        "that of a run in which the rule is the only reason; empty: it does not change the exit code."
    )
    return f"# Rules of reports\n\n{about}\n\n" + table(["rule", "level", "exit code", "meaning", "tags"], rows)


def report_kinds() -> str:
    """The kinds of reports."""
    from minnow.report.formats import format_of, kinds

    found = [format_of(kind) for kind in kinds()]
    return table(
        ["kind", "usual name", "what it is"], [[f"`{f.kind}`", f.file and f"`{f.file}`", f.about] for f in found]
    )


def ci_report_schema() -> str:
    """The JSON schema of the machine-readable report."""
    from minnow.workflow.result import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"
