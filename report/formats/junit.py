"""JUnit XML: a suite for each cell, a test case for each check."""

from __future__ import annotations

import datetime
import re
import xml.etree.ElementTree as ET
from collections import Counter

from minnow.report.formats import report
from minnow.report.formats._finding import is_note, place_of, rule_named
from minnow.report.formats._text import exact, last_part
from minnow.workflow.result import CellResult, Check, Results

_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOG = 20_000


@report("junit", "JUnit XML, which Jenkins, GitLab, Azure Pipelines and others show as tests", file="junit.xml")
def junit(results: Results) -> str:
    """One document for all cells, valid for the schemas of Ant's JUnit task and of Jenkins.

    Characters that XML 1.0 does not have are left out, and ends of lines are "\\n". These schemas require a time and a
    host: without them it is 1970, as in reproducible builds, on "localhost".
    """
    root = ET.Element("testsuites")
    for number, cell in enumerate(results.cells):
        root.append(_suite(results, cell, number))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(results: Results, cell: CellResult, number: int) -> ET.Element:
    checks = [check for check in cell.checks if not is_note(check)]
    checks = checks or [Check("convert", "skipped", message="nothing was checked")]
    counts = Counter(check.status for check in checks)
    suite = ET.Element("testsuite", {
        "name": legal(cell.name) or "model",
        "package": legal(cell.model),
        "id": str(number),
        "tests": str(len(checks)),
        "failures": str(counts["failed"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": _seconds(sum(check.seconds for check in checks)),
        "timestamp": timestamp(results.started),
        "hostname": legal(results.host) or "localhost",
    })  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    values = {"source": cell.source, "output": cell.output, "sha256": cell.sha256}
    values |= {name: exact(value) for name, value in cell.metrics.items()}
    values |= {f"source.{name}": exact(value) for name, value in cell.before.items()}
    for name, value in values.items():
        if legal(name):
            ET.SubElement(properties, "property", name=legal(name), value=legal(value))
    seen: Counter[str] = Counter()
    for check in checks:
        name = legal(check.name) or "check"
        seen[name] += 1
        suite.append(_case(results, cell, check, name if seen[name] == 1 else f"{name} ({seen[name]})"))
    said = [
        f"{'note' if check.status == 'passed' else check.status}: {check.name}: {check.message}"
        for check in cell.checks
        if check.status == "warning" or (check.status == "passed" and check.message)
    ]
    ET.SubElement(suite, "system-out").text = legal("\n".join([*said, last_part(cell.log, _LOG)]).strip())
    ET.SubElement(suite, "system-err")
    return suite


def _case(results: Results, cell: CellResult, check: Check, name: str) -> ET.Element:
    names = {"name": name, "classname": legal(cell.name) or "model"}
    case = ET.Element("testcase", {**names, "time": _seconds(check.seconds)})
    if check.status == "skipped":
        ET.SubElement(case, "skipped", message=legal(check.message))
    elif check.status in ("failed", "error"):
        rule = rule_named(check.rule)
        kind = "failure" if check.status == "failed" else "error"
        found = ET.SubElement(case, kind, message=legal(check.message or rule.title), type=legal(rule.name))
        path, line = place_of(results, cell)
        rows = [check.message, check.details, f"where: {path}:{line}"]
        rows += [f"nodes: {', '.join(check.nodes)}"] if check.nodes else []
        rows += [f"try: {rule.help}"] if rule.help else []
        rows += [f"reproduce: {cell.reproduce}"] if cell.reproduce else []
        found.text = legal("\n".join(row for row in rows if row))
    return case


def legal(text: str) -> str:
    """The text without characters that XML 1.0 does not have, and with "\\n" as the end of lines."""
    return _ILLEGAL.sub("", re.sub("\r\n?", "\n", text))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def timestamp(started: str) -> str:
    """A time in UTC without its zone, as the schema wants it."""
    try:
        time = datetime.datetime.fromisoformat(re.sub("Z$", "+00:00", started))
    except ValueError:
        return "1970-01-01T00:00:00"
    if time.tzinfo is not None:
        time = time.astimezone(datetime.timezone.utc)
    return time.replace(tzinfo=None, microsecond=0).isoformat()
