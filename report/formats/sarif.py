"""SARIF 2.1.0, which GitHub and others show as alerts at lines of files."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from minnow.report.formats import report
from minnow.report.formats._cleaned import repository_path
from minnow.report.formats._finding import Finding, findings
from minnow.report.formats._text import clipped, plain
from minnow.workflow.result import Results
from minnow.workflow.rule import RULES, Rule

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_SEVERITY = {"error": "error", "warning": "warning", "note": "recommendation"}
RESULTS, NODES, MESSAGE = 25_000, 100, 8_000
"""Limits of GitHub: results of a run; ours: nodes of a result, characters of a message."""


@report("sarif", "SARIF 2.1.0, for code scanning", file="report.sarif")
def sarif(results: Results) -> str:
    """One run; a result for each check with a rule. Paths are relative to the root of the repository."""
    found = findings(results)
    rules = {**RULES, **{f.rule.name: f.rule for f in found}}
    index = {name: i for i, name in enumerate(rules)}
    driver: dict[str, Any] = {"name": "Minnow", "rules": [_rule(rule) for rule in rules.values()]}
    if results.version:
        driver["version"] = results.version
    if _SEMANTIC.fullmatch(results.version):
        driver["semanticVersion"] = results.version
    invocation: dict[str, Any] = {
        "executionSuccessful": all(cell.exit_code != 1 for cell in results.cells),
        "exitCode": results.exit_code,
    }
    if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", results.started):
        invocation["startTimeUtc"] = _utc(results.started)
    if len(found) > RESULTS:
        left = f"{len(found) - RESULTS} more results, the least severe ones, are left out"
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": left}}]
    category = repository_path(results.config) + "/" if results.config else ""
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"minnow/{category}"},
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The root of the repository."}}},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, index[f.rule.name]) for f in found[:RESULTS]],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title} {rule.help}".strip()},
        "help": {"text": rule.help or rule.title, "markdown": rule.help or rule.title},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["model conversion", *rule.tags], "problem.severity": _SEVERITY[rule.level]},
    }


def _result(found: Finding, index: int) -> dict[str, Any]:
    check = found.check
    place = {
        "artifactLocation": {"uri": _uri(found.path), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": found.line},
    }
    names = dict.fromkeys(plain(node) for node in check.nodes[:NODES] if plain(node))  # each place once, as SARIF wants
    logical = [
        {"name": node, "fullyQualifiedName": f"{plain(found.cell.name)}/{node}", "kind": "element"} for node in names
    ]
    location: dict[str, Any] = {"physicalLocation": place}
    if logical:
        location["logicalLocations"] = logical
    message = "\n\n".join(filter(None, (f"{found.cell.name}: {found.text}", check.details.strip())))
    properties = {"model": found.cell.model, "variant": found.cell.variant, "check": check.name, "status": check.status}
    result: dict[str, Any] = {
        "ruleId": found.rule.name,
        "ruleIndex": index,
        "level": found.level,
        "message": {"text": clipped(plain(message), MESSAGE)},
        "locations": [location],
        "partialFingerprints": {"primaryLocationLineHash": f"{found.fingerprint[:16]}:{found.count}"},
        "properties": properties,
    }
    return result


def _uri(path: str) -> str:
    """A path as a relative reference; a ":" is encoded, so that nothing in it is a scheme."""
    return quote(path, safe="/") or "."


def _utc(started: str) -> str:
    from minnow.report.formats.junit import timestamp

    return f"{timestamp(started)}Z"
