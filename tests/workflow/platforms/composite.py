"""Runs the steps of a composite action as a GitHub runner does: in a shell, with its variables and files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\b(?:inputs|steps|runner|github)(?:\.[\w-]+)+")


@dataclass
class Job:
    """What a job has left behind.

    Attributes:
        code: exit code of the first step that failed; 0 if none did.
        printed: what all steps have written to standard output, which is where annotations are found.
        summary: the job summary, in Markdown.
        outputs: the outputs of the action.
        uses: the inputs of the other actions that were called, by their names without the pinned version.
    """

    code: int = 0
    printed: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    uses: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def annotations(self, kind: str) -> list[str]:
        """The annotations of a kind, such as "error", as they were written."""
        return [row for row in self.printed.splitlines() if row.startswith(f"::{kind} ")]


def run_action(action: Path, checkout: Path, inputs: Mapping[str, str], temp: Path) -> Job:
    """Runs all steps of `action`/action.yml in the folder `checkout`; other actions are recorded and do nothing."""
    text = (action / "action.yml").read_text()
    document = yaml.safe_load(text)
    unknown = set(inputs) - set(document["inputs"])
    assert not unknown, f"the action has no inputs {unknown}"
    values = {name: str(given.get("default", "")) for name, given in document["inputs"].items()} | dict(inputs)
    context: dict[str, str] = {f"inputs.{name}": value for name, value in values.items()}
    context |= {"runner.temp": str(temp), "runner.os": "Linux", "runner.arch": "X64"}
    context |= {"github.sha": "0" * 40, "github.run_attempt": "1"}
    job, path = Job(), os.environ["PATH"]
    folder = Path(sys.executable).parent
    if values["install"] == "false":
        path = f"{folder}:{path}"
    for number, step in enumerate(document["runs"]["steps"]):
        if not _condition(step.get("if", ""), context, failed=job.code != 0):
            continue
        if "uses" in step:
            given = {name: _filled(str(value), context) for name, value in step.get("with", {}).items()}
            job.uses.append((step["uses"].partition("@")[0], given))
            continue
        files = {name: temp / f"{name}-{number}" for name in ("OUTPUT", "STEP_SUMMARY", "PATH", "ENV")}
        for file in files.values():
            file.touch()
        script = temp / "step.sh"
        script.write_text(_without_expressions(step["run"]))
        environment = {
            **{name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "MINNOW_CALIBRATION")},
            **{f"GITHUB_{name}": str(file) for name, file in files.items()},
            **{name: _filled(str(value), context) for name, value in step.get("env", {}).items()},
            "PATH": path,
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(checkout),
            "GITHUB_ACTION_PATH": str(action),
            "RUNNER_TEMP": str(temp),
        }
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
        job.printed += done.stdout
        job.summary += files["STEP_SUMMARY"].read_text()
        path = ":".join([*files["PATH"].read_text().split(), path])
        for row in files["OUTPUT"].read_text().splitlines():
            name, _, value = row.partition("=")
            context[f"steps.{step.get('id', '')}.outputs.{name}"] = value
        if done.returncode and not job.code:
            job.code = done.returncode
            job.printed += done.stderr
    job.outputs = {name: _filled(o["value"], context) for name, o in document["outputs"].items()}
    return job


def _filled(text: str, context: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda m: context.get(m.group(1).strip(), ""), text)


def _without_expressions(script: str) -> str:
    assert "${{" not in script, "text that is put into a script could contain commands: use an environment variable"
    return script


def _condition(text: str, context: Mapping[str, str], failed: bool) -> bool:
    """A condition of a step: inputs compared with texts, `!cancelled()`, `&&`. Without one: no step has failed."""
    inner = (_EXPRESSION.fullmatch(text.strip()) or re.fullmatch("(.*)", text.strip()))[1].strip()  # type: ignore[index]
    plain = _NAME.sub(lambda m: repr(context.get(m.group(), "")), inner).replace("!cancelled()", "True")
    value: Any = eval(plain.replace("&&", " and "), {"__builtins__": {}}) if plain else True
    return bool(value) and ("cancelled()" in inner or not failed)
