"""The configuration file: what it means, and which errors it can have, with their lines."""

from __future__ import annotations

import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from minnow.options.convert import ConvertOptions
from minnow.options.option import flags
from minnow.schema.errors import UsageError
from minnow.workflow.cell import Budget, Limits, Place
from minnow.workflow.config.cells import Config, find_config, load_config
from minnow.workflow.config.keys import option_keys
from minnow.workflow.config.line import Lines, parsed
from minnow.workflow.metric import METRICS
from minnow.workflow.run import Settings, check_cells, run_cells

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"

EXAMPLE = """\
# two models, two variants
output = "out/{name}-{variant}.mnn"

[defaults]
int64 = "narrow"
data = "inputs/real.npz"

[budgets]
bytes = "60 %"
nodes = 100

[variants.small]
optimize = 3

[variants.own]
target = "minnow"
optimize = 1
limits = { seconds = 5.5, memory = "512 MiB" }

[models.first]
source = "a.onnx"
inputs = { x = [1, 3, 8, "?"] }
tolerance = 1e-3

[models.first.variants]
small = { tolerance = 0.01, budgets.bytes = "5 MB" }
own = {}

["models"."the second"]   # a name with a space
source = 'sub/b.tflite'
variants = ["own"]
budgets = { latency = { ratio = 1.1, baseline = "onnxruntime" } }

[[exclude]]
model = "first"
variant = "own"
reason = "not on this target"
"""


def config(folder: Path, text: str, name: str = "minnow.toml") -> Config:
    (folder / name).write_text(text)
    return load_config(folder / name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_cells_of_a_file(here: Path) -> None:
    small, own, second = config(here, EXAMPLE).cells
    assert [c.name for c in (small, own, second)] == ["first/small", "first/own", "the second/own"]
    assert small.options == {
        "int64": "narrow", "data": ["inputs/real.npz"], "optimize": 3, "tolerance": 0.01, "inputs": {"x": "1x3x8x?"},
    }  # fmt: skip
    assert (own.options["tolerance"], own.options["optimize"], own.options["target"]) == (1e-3, 1, "minnow")
    assert small.budgets == (Budget("bytes", 5e6), Budget("nodes", 100))
    assert own.budgets == (Budget("bytes", 0.6, relative=True), Budget("nodes", 100))
    assert second.budgets[-1] == Budget("latency", 1.1, "onnxruntime", retries=2)
    assert (own.limits, small.limits) == (Limits(5.5, 512 << 20), Limits())
    assert (small.output, second.source) == ("out/first-small.mnn", "sub/b.tflite")
    assert [c.excluded for c in (small, own, second)] == ["", "not on this target", ""]
    assert (small.place, second.place) == (Place("minnow.toml", 20), Place("minnow.toml", 29))


def test_paths_are_relative_to_the_file(here: Path) -> None:
    (here / "sub").mkdir()
    (cell,) = config(here / "sub", '[models.m]\nsource = "a.onnx"\ndata = ["b.npz"]\n').cells
    assert (cell.source, cell.output, cell.options["data"]) == ("sub/a.onnx", "sub/a.mnn", ["sub/b.npz"])
    (cell,) = config(here / "sub", '[models.m]\nsource = "s3://b/a.onnx"\noutput = "/x/{stem}.mnn"').cells
    assert (cell.source, cell.output) == ("s3://b/a.onnx", "/x/a.mnn")


def test_a_pattern_gives_several_models(here: Path) -> None:
    for name in ("x/b.onnx", "x/y/a.onnx", "x/b.mnn", "c.onnx"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch()
    cells = config(here, '[variants.v]\n[models.zoo]\nsource = "x/**/*"\n').cells
    assert [(c.name, c.source, c.output) for c in cells] == [
        ("zoo.b/v", "x/b.onnx", "x/b-v.mnn"), ("zoo.y/v", "x/y", "x/y-v.mnn"), ("zoo.a/v", "x/y/a.onnx", "x/y/a-v.mnn"),
    ]  # fmt: skip
    cells = config(here, f'[models.web]\nsource = "file://{here}/x/*.onnx"\noutput = "{{name}}.mnn"').cells
    assert [(c.name, c.source, c.output) for c in cells] == [("web.b", f"file://{here}/x/b.onnx", "web.b.mnn")]


def test_the_file_is_found_from_below(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a/b").mkdir(parents=True)
    (here / "pyproject.toml").write_text('[tool.minnow.models.m]\nsource = "m.onnx"\n[tool.other]\nx = 1\n')
    (here / "a/pyproject.toml").write_text("[tool.ruff]\n# not minnow\n")
    monkeypatch.chdir(here / "a/b")
    found = load_config()
    assert (str(found.path), found.cells[0].source) == ("../../pyproject.toml", "../../m.onnx")
    (here / "minnow.toml").write_text('[models.own]\nsource = "m.onnx"\n')
    assert find_config(here / "a") == here / "minnow.toml"
    assert load_config().cells[0].name == "own"


def test_without_a_file_the_error_says_so(here: Path) -> None:
    with pytest.raises(UsageError, match="no configuration"):
        find_config(here / "no")


MODEL = '[models.m]\nsource = "a.onnx"\n'


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("x = \n", 1, "not a valid TOML file", ""),
        (MODEL + 'source = "b"\n', 3, "not a valid TOML file", ""),
        ('[models]\na = """\n', 3, "not a valid TOML file", ""),
        (MODEL + "\n# comment\ntolerence = 1\n", 5, "unknown key 'tolerence'", "did you mean 'tolerance'?"),
        ("[budget]\nbytes = 1\n" + MODEL, 1, "unknown key 'budget'", "did you mean 'budgets'?"),
        ("[budgets]\nbites = 1\n" + MODEL, 2, "unknown key 'bites'", "did you mean 'bytes'?"),
        (MODEL + "budgets = { bytes = '5 lightyears' }\n", 3, "budgets.bytes is '5 lightyears'", '"5 MB"'),
        (MODEL + "[models.m.budgets]\nmacs = '5 MB'\n", 4, "macs is '5 MB'", "60 %"),
        (MODEL + "[models.m.budgets]\nmax_error = '60 %'\n", 4, "max_error is '60 %'", "a number"),
        (MODEL + "[models.m.budgets.latency]\nratio = 1.1\n", 3, "neither 'baseline' nor 'python'", "runtime"),
        (MODEL + "optimize = 7\n", 3, "models.m.optimize is 7", "from 0 to 3"),
        (MODEL + 'target = "gpu"\n', 3, "is 'gpu'", "mnn, minnow"),
        (MODEL + "verify = 'no'\n", 3, "is 'no'", "true or false"),
        (MODEL + "inputs = { x = 'a b' }\n", 3, "'a b'", ""),
        (MODEL + "inputs = [1, 2]\n", 3, r"\[1, 2\]", "table of shapes"),
        (MODEL + "verify = false\ntolerance = 0.1\n", 1, "m: data and tolerance", "omit"),
        (MODEL + 'variants = ["fst"]\n[variants.fast]\n', 3, "unknown variant 'fst'", "'fast'"),
        (MODEL + 'output = "{nam}.mnn"\n', 3, "'nam'", "name"),
        (MODEL + 'output = "x/"\n', 3, "a folder", "file"),
        (MODEL + '[models.n]\nsource = "a.onnx"\n', 3, "m and n have the same output a.mnn", "{name}"),
        (MODEL + '[models.n]\nsource = "*.pb"\n', 4, "no file fits the pattern", "relative"),
        (MODEL + '[[exclude]]\nmodel = "z*"\nreason = "x"\n', 3, "fits no model", "remove"),
        (MODEL + '[[exclude]]\nreason = "x"\n', 3, "neither a model nor a variant", ""),
        (MODEL + '[[exclude]]\nmodel = "m"\n', 3, "no key 'reason'", ""),
        ('[models."a/b"]\nsource = "a"\n', 1, "'a/b' is not a name", ""),
        ("[defaults]\n", 1, "no key 'models'", ""),
        ("[models.m]\ntolerance = 1\n", 1, "no key 'source'", "model file"),
        ("[models]\nm = 3\n", 2, "models.m is 3", "table"),
    ],
)
def test_errors_have_file_and_line(here: Path, text: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(here, text)
    assert caught.value.where == f"minnow.toml:{line}", caught.value
    assert re.search(message, caught.value.message), caught.value
    assert re.search(hint, caught.value.hint) or hint in caught.value.hint, caught.value


def test_errors_of_a_project_file_name_its_keys(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        config(here, '[tool.x]\n[tool.minnow.models.m]\nsource = "a"\nbatch = -1\n', "pyproject.toml")
    assert (caught.value.where, caught.value.message) == ("pyproject.toml:4", "models.m.batch is -1")


def test_models_are_chosen_by_names_and_patterns(here: Path) -> None:
    found = config(here, EXAMPLE)
    names = {
        ("first",): ["first/small", "first/own"],
        ("first/own", "the*"): ["first/own", "the second/own"],
        ("*/own",): ["first/own", "the second/own"],
        (): ["first/small", "first/own", "the second/own"],
    }
    for patterns, expected in names.items():
        assert [c.name for c in found.only(patterns)] == expected
    with pytest.raises(UsageError, match="unknown model 'frist'"):
        found.only(["frist"])


def test_every_option_with_a_flag_can_be_set() -> None:
    assert set(option_keys()) == {f.name for f in fields(ConvertOptions) if flags(f)} - {"output"}
    assert len(option_keys()) > 20


LINES = '''\
a.b = 1  # [x]
"q.r" = """
[not.a.header]
k = 2
"""
[t]
u = [ # [no]
  1, {v = 2, w = "]"},
  """x""" ]
'lit' = \'\'\'
[[no]]\'\'\'
[t."s.s"]
x = {y.z = "#", s = 'a\\'}
[[arr]]
[[arr]]
  n = 2021-01-01T00:00:00Z
[arr.sub]
o = "\\"]"
e = """a\\"""b""""
f = true
'''


def test_lines_of_keys() -> None:
    lines = Lines(LINES)
    table: dict[tuple[str | int, ...], int] = {
        ("a",): 1, ("a", "b"): 1, ("q.r",): 2, ("t",): 6, ("t", "u"): 7, ("t", "u", 0): 8, ("t", "u", 1, "w"): 8,
        ("t", "u", 2): 9, ("t", "lit"): 10, ("t", "s.s"): 12, ("t", "s.s", "x", "y", "z"): 13,
        ("t", "s.s", "x", "s"): 13, ("arr", 0): 14, ("arr", 1): 15, ("arr", 1, "n"): 16, ("arr", 1, "sub"): 17,
        ("arr", 1, "sub", "e"): 19, ("arr", 1, "sub", "f"): 20, ("none",): 1, ("t", "none", 3): 6,
    }  # fmt: skip
    assert {path: lines.of(path) for path in table} == table


def test_every_key_of_a_text_is_found() -> None:
    """All paths of tomllib's values are known, and no others of tables."""

    def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path, *(p for key, one in inner for p in paths(one, (*path, key)))]

    for text in (LINES, EXAMPLE):
        known = Lines(text)._lines
        wanted = set(paths(parsed(text, ""))) - {()}
        assert wanted - known.keys() <= {("models",), ("variants",)}, "headers imply the tables around them"
        assert known.keys() <= wanted


def test_every_metric_can_have_a_budget(here: Path) -> None:
    values = {name: 5 for name in METRICS if METRICS[name].measured == "converted"}
    text = "\n".join(f"{name} = {value}" for name, value in values.items())
    latency = '[budgets.latency]\nratio = 2\nbaseline = "base/{name}/{output}"\nretries = 0\n'
    (cell,) = config(here, f"[budgets]\n{text}\n{latency}{MODEL}").cells
    assert cell.budgets == (
        *(Budget(n, 5) for n in values), Budget("latency", 2, "base/m/a.mnn", retries=0),
    )  # fmt: skip


def test_another_build_can_be_the_baseline(here: Path) -> None:
    text = '[budgets.latency]\nratio = 1.1\npython = "base/bin/python"\nthreads = 2\n'
    (cell,) = config(here, text + MODEL).cells
    assert cell.budgets == (Budget("latency", 1.1, python="base/bin/python", threads=2),)


PAGE = Path(__file__).parents[2] / "docs/configuration.md"


def test_the_example_of_the_page(here: Path) -> None:
    example = PAGE.read_text().partition("<!-- example -->\n```toml\n")[2].partition("```")[0]
    for name in ("models/digits.onnx", "models/pets/cat.onnx", "models/pets/dog.onnx"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DIGITS, here / name)
    found = config(here, example)
    assert [(c.name, c.output, c.excluded != "") for c in found.cells] == [
        ("digits/portable", "build/digits-portable.mnn", False),
        ("digits/engine", "build/digits-engine.mnn", False),
        ("pets.cat/engine", "build/pets.cat-engine.mnn", False),
        ("pets.dog/engine", "build/pets.dog-engine.mnn", True),
    ]
    assert {b.metric: (b.limit, b.relative) for b in found.cells[0].budgets} == {
        "bytes": (90_000, False), "nodes": (0.8, True), "max_error": (1e-5, False),
    }  # fmt: skip
    results = run_cells(found.cells, "minnow.toml", Settings(jobs=1))
    assert [c.status for c in results.cells] == ["passed", "passed", "passed", "skipped"], results
    assert results.cells[2].checks[-1].message == "no baseline: base/build/pets.cat-engine.mnn does not exist"
    assert [c.status for c in check_cells(found.cells, "").cells] == ["passed", "passed", "passed", "skipped"]
    with pytest.raises(UsageError) as caught:
        config(here, example.replace("tolerance", "tolerence"))
    shown = PAGE.read_text().partition("    error: unknown")[2]
    assert re.sub(r"(?m)^    ", "", f"unknown{shown.partition(chr(10) * 2)[0]}") == str(caught.value)
