"""The manual pages are pages that man can show, and tell of every flag, exit code and environment variable."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "man").glob("*.1"))
FOLDERS = ("minnow", "schema", "converter", "optimizer", "runtime", "kernels", "workflow", "report")

sys.path.append(str(ROOT / "docs"))


def rendered(page: Path) -> str:
    """A page as it is shown, without underlining, and without breaks of lines."""
    for tool in (["mandoc", "-T", "ascii", "-O", "width=1000"], ["groff", "-man", "-Tascii", "-rLL=1000n"]):
        if shutil.which(tool[0]):
            done = subprocess.run([*tool, str(page)], capture_output=True, text=True, check=True)
            return re.sub(r".\x08|\x1b\[[\d;]*m", "", done.stdout)
    pytest.skip("neither mandoc nor groff is installed")


def contexts() -> dict[str, click.Context]:
    from minnow.cli._app import app

    def walk(context: click.Context) -> dict[str, click.Context]:
        found = {context.command_path.replace(" ", "-"): context}
        if isinstance(context.command, click.Group):
            for name in context.command.list_commands(context):
                command = context.command.get_command(context, name)
                assert command is not None
                found |= walk(click.Context(command, info_name=name, parent=context))
        return found

    return walk(click.Context(app, info_name="mnnconvert"))


def test_lists_of_commands_are_whole_on_terminals_of_80_columns() -> None:
    groups = {name: c for name, c in contexts().items() if isinstance(c.command, click.Group)}
    assert {"mnnconvert", "mnnconvert-llm"} <= groups.keys()
    for name, context in groups.items():
        narrow = click.Context(context.command, info_name=name, terminal_width=80, max_content_width=80)
        listed = context.command.get_help(narrow).partition("Commands:")[2]
        assert "..." not in listed, listed


def test_every_command_has_a_page_with_all_its_flags() -> None:
    assert {page.stem for page in PAGES} == set(contexts())
    for name, context in contexts().items():
        text = rendered(ROOT / "docs" / "man" / f"{name}.1")
        assert context.command_path in text
        for param in context.command.params:
            for flag in (*param.opts, *param.secondary_opts) if isinstance(param, click.Option) else ():
                assert param.hidden or re.search(rf"(?<![\w-]){flag}(?![\w-])", text), (name, flag)


@pytest.mark.parametrize(
    "tool", [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-Tutf8"]], ids=lambda tool: tool[0]
)
def test_the_pages_have_no_errors(tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    done = subprocess.run([*tool, *map(str, PAGES)], capture_output=True, text=True, check=False)
    told = (done.stdout if tool[0] == "mandoc" else "") + done.stderr
    wrong = [line for line in told.splitlines() if "missing date" not in line]  # the same file whenever it is made
    assert not wrong, "\n".join(wrong)
    assert len(PAGES) > 10


def test_environment_variables_are_those_that_are_read() -> None:
    from minnow.options.environment import VARIABLES

    listed = {name for v in VARIABLES for name in re.findall(r"[A-Z][A-Z_0-9]+", v.name.split("=")[0])}
    sources = {p for folder in FOLDERS for end in ("py", "cpp", "h") for p in (ROOT / folder).rglob(f"*.{end}")}
    text = "\n".join(p.read_text() for p in sources if p.name != "environment.py")
    quoted = set(re.findall(r'"(MINNOW_[A-Z_0-9]+)"', text))
    assert quoted, "no variable was found"
    assert quoted <= listed
    for name in listed - {"TMPDIR"}:  # which Python reads
        assert f'"{name}"' in text, f"{name} is not read"


def test_every_error_has_an_exit_code_that_is_documented() -> None:
    from minnow.cli._exit import exit_codes
    from minnow.schema import errors

    kinds = {k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.MinnowError)}
    names = {name: e.code for e in exit_codes() for name in e.errors}
    assert {k.__name__ for k in kinds} - names.keys() == {"MinnowError"}
    assert all(names[k.__name__] == k.exit_code for k in kinds if k is not errors.MinnowError)
    text = rendered(ROOT / "docs" / "man" / "mnnconvert.1")
    for e in exit_codes():
        assert re.search(rf"^\s+{e.code}\s", text, re.MULTILINE), e


@pytest.mark.slow
def test_the_examples_work(tmp_path: Path) -> None:
    import onnx
    from man import EXAMPLES
    from onnx import TensorProto, helper

    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3, "H", "W"]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                   "XDG_CACHE_HOME": str(tmp_path)}  # fmt: skip
    for line in EXAMPLES:
        extra = ["--input", "x=1x3x8x8"] if " benchmark " in line else []
        done = subprocess.run([*shlex.split(line), *extra], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, (line, done.stderr)
