"""The step for GitHub, GitLab and pre-commit, each run as its platform runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from composite import Job, run_action

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PINNED = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40}")

CONFIG = """\
output = "out/{name}.mnn"

[models.digits]
source = "digits.onnx"
budgets = { nodes = NODES }
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a model, whose configuration has a budget that holds."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(ROOT / "examples/digits/digits.onnx", folder)
    (folder / "minnow.toml").write_text(CONFIG.replace("NODES", "100"))
    return folder


def valid(schema: str, *files: Path) -> None:
    """Checks files against the schema of their platform, as of SchemaStore."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recipes_of_the_docs_fit_their_schemas_and_use_what_is_there(tmp_path: Path) -> None:
    """A recipe with an input or a hook that does not exist would fail for everyone who copies it."""
    schemas = {"jobs": "vendor.github-workflows", "include": "vendor.gitlab-ci", "repos": ""}
    found: dict[str, list[Path]] = {}
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    gitlab = yaml.safe_load((ROOT / "templates/minnow.yml").read_text().partition("\n---\n")[0])["spec"]["inputs"]
    for i, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/ci.md").read_text(), re.M | re.S)):
        document = yaml.safe_load(block)
        kind = next(name for name in schemas if name in document)
        (path := tmp_path / f"{kind}{i}.yml").write_text(block)
        found.setdefault(kind, []).append(path)
        if kind == "jobs":
            steps = [step for job in document["jobs"].values() for step in job["steps"]]
            own = [step for step in steps if step.get("uses", "").endswith("/minnow@COMMIT")]
            assert own
            assert all(set(step.get("with", {})) <= set(action["inputs"]) for step in own)
            assert set(re.findall(r"steps\.minnow\.outputs\.([\w-]+)", block)) <= set(action["outputs"])
        elif kind == "include":
            assert set(document["include"][0]["inputs"]) <= set(gitlab)
        else:
            ids = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
            assert {hook["id"] for repo in document["repos"] for hook in repo["hooks"]} == ids
    assert set(found) == set(schemas)
    for kind, schema in schemas.items():
        if schema:
            valid(schema, *found[kind])


# --- GitHub ----------------------------------------------------------------------------------------------------------


def act(checkout: Path, **inputs: str) -> Job:
    temp = checkout.parent / "temp"
    temp.mkdir(exist_ok=True)
    return run_action(ROOT, checkout, {"install": "false", **{k.replace("_", "-"): v for k, v in inputs.items()}}, temp)


def test_the_action_fits_the_schema_and_pins_other_actions() -> None:
    valid("vendor.github-actions", ROOT / "action.yml")
    used = [
        step["uses"] for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if "uses" in step
    ]
    assert len(used) == 3
    assert all(PINNED.fullmatch(name) for name in used), used


def test_the_action_reports_and_compares_with_a_baseline(checkout: Path) -> None:
    first = act(checkout, baseline="base.json", max_increase="nodes=0 bytes=1%")
    assert first.code == 0, first.printed
    assert not first.annotations("error")
    assert first.outputs["passed"] == "1"
    assert first.outputs["exit-code"] == first.outputs["failed"] == first.outputs["error"] == "0"
    for name in ("report", "html", "junit", "sarif"):
        assert (checkout / first.outputs[name]).stat().st_size > 100, name
    assert "digits" in first.summary
    assert (checkout / "out/digits.mnn").exists()
    assert [name for name, _ in first.uses] == ["actions/cache", "actions/upload-artifact"]
    cache, artifact = (given for _, given in first.uses)
    assert Path(cache["path"]).is_dir()
    assert (checkout / artifact["path"] / "report.json").exists()

    report = json.loads((checkout / first.outputs["report"]).read_text())
    report["cells"][0]["metrics"]["nodes"] -= 1
    (checkout / "base.json").write_text(json.dumps(report))
    second = act(checkout, baseline="base.json", max_increase="nodes=0 bytes=1%")
    assert second.code == 5
    assert second.outputs["exit-code"] == "5"
    assert json.loads((checkout / second.outputs["report"]).read_text())["cells"][0]["cached"]
    assert act(checkout, baseline="base.json", max_increase="nodes=1").code == 0


@pytest.mark.slow
def test_the_action_fails_with_an_annotation_at_the_line_of_the_model(checkout: Path) -> None:
    (checkout / "minnow.toml").write_text(CONFIG.replace("NODES", "3"))
    job = act(checkout, cache="false")
    assert job.code == 5
    assert job.outputs["failed"] == "1"
    (error,) = job.annotations("error")
    assert error.startswith("::error file=minnow.toml,line=3,")
    assert "budget" in error
    assert [name for name, _ in job.uses] == ["actions/upload-artifact"], "reports are kept when the step fails"
    assert act(checkout, cache="false", fail_on="never", artifact="").code == 0


def test_inputs_are_never_run_as_commands(checkout: Path) -> None:
    attack = '"; touch attacked; echo "$(touch attacked)`touch attacked`'
    job = act(checkout, config=attack, only=attack, cache="false")
    assert job.code == 6, "there is no such configuration"
    assert not (checkout / "attacked").exists()


def test_the_action_only_checks_outputs_if_asked_to(checkout: Path) -> None:
    job = act(checkout, check="true")
    assert job.code == 4, "there is no output yet"
    assert not (checkout / "out").exists()


# --- GitLab ----------------------------------------------------------------------------------------------------------


def component(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The job of the GitLab component, with its inputs filled in."""
    header, _, body = (ROOT / "templates/minnow.yml").read_text().partition("\n---\n")
    declared = yaml.safe_load(header)["spec"]["inputs"]
    values = {name: more["default"] for name, more in declared.items()} | dict(inputs)

    def text(found: re.Match[str]) -> str:
        value = values[found[1]]
        return str(value).lower() if isinstance(value, bool) else str(value)

    document: dict[str, Any] = yaml.safe_load(re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", text, body))
    return document


def run_gitlab(checkout: Path, **inputs: Any) -> tuple[int, str]:
    """Runs the script of the job as the runner does: joined lines in a POSIX shell, with the variables of the job."""
    (job,) = component({"package": "", **{k.replace("_", "-"): v for k, v in inputs.items()}}).values()
    variables = {name: str(value) for name, value in job["variables"].items()}
    environment = {**os.environ, **variables, "PATH": f"{BIN}:{os.environ['PATH']}", "CI": "true"}
    environment |= {"CI_PROJECT_DIR": str(checkout)}
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])], cwd=checkout, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_gitlab_component(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(yaml.safe_dump(component({})))
    valid("vendor.gitlab-ci", tmp_path / "job.yml")
    code, printed = run_gitlab(checkout, baseline="none.json")
    assert code == 0, printed
    (job,) = component({}).values()
    for path in job["artifacts"]["reports"].values():
        assert (checkout / path).exists(), path
    assert json.loads((checkout / "minnow-report/codequality.json").read_text()) == []
    (checkout / "minnow.toml").write_text(CONFIG.replace("NODES", "3"))
    code, _ = run_gitlab(checkout)
    assert code == 5
    (problem,) = json.loads((checkout / "minnow-report/codequality.json").read_text())
    assert problem["location"] == {"path": "minnow.toml", "lines": {"begin": 3}}


# --- pre-commit ------------------------------------------------------------------------------------------------------


def hooks(checkout: Path, language: str | None) -> Path:
    """Makes the checkout a git repository that uses the hooks of a copy of this one; returns pre-commit's folder."""
    source = checkout.parent / "minnow"
    if language is None:
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(source)], check=True)
    else:
        source.mkdir()
        shutil.copy(ROOT / ".pre-commit-hooks.yaml", source)
        git(source, "init", "-q")
        git(source, "add", "-A")
        git(source, "commit", "-qm", "hooks")
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True).stdout.strip()
    ids = [hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())]
    chosen = [{"id": name, **({"language": language} if language else {})} for name in ids]
    config = {"repos": [{"repo": str(source), "rev": revision, "hooks": chosen}]}
    (checkout / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    return checkout.parent / "pre-commit"


def pre_commit(checkout: Path, home: Path, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pre_commit", *arguments]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_hooks_with_an_installed_minnow(checkout: Path) -> None:
    """With `language: system` pre-commit runs the `mnnconvert` on PATH."""
    home = hooks(checkout, "system")
    code, printed = pre_commit(checkout, home, "run", "--all-files")
    assert code == 1
    assert re.search(r"can be converted\.+Passed", printed), printed
    assert re.search(r"belong to their sources\.+Failed", printed), printed
    code, printed = pre_commit(checkout, home, "run", "minnow-budget", "--hook-stage", "manual", "--all-files")
    assert code == 0, printed
    assert (checkout / "out/digits.mnn.receipt.json").exists()
    git(checkout, "add", "-A")
    code, printed = pre_commit(checkout, home, "run", "--all-files")
    assert code == 0, printed
    (checkout / "bad.onnx").write_bytes(b"not a model")
    git(checkout, "add", "-A")
    code, printed = pre_commit(checkout, home, "run", "--all-files")
    assert code == 1
    assert "bad.onnx" in printed


@pytest.mark.slow
def test_the_hooks_install_minnow_by_themselves(checkout: Path) -> None:
    """As in any repository that uses them: pre-commit builds and installs the package from a clone."""
    home = hooks(checkout, None)
    code, printed = pre_commit(checkout, home, "run", "minnow-check", "--all-files")
    assert code == 0, printed
