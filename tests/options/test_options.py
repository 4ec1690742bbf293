"""Options are said once: signatures, flags, documentation and printed command lines come from the fields."""

from __future__ import annotations

import ast
import atexit
import functools
import inspect
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minnow
import minnow.diffusion
import minnow.llm
from minnow.bisection import bisect
from minnow.cli._app import app, run
from minnow.cli._flag import Flag, taken
from minnow.cli._log import flags as of_the_log
from minnow.cli._option import FORMAT, QUIET, STATS
from minnow.converter.inputs.given import Given
from minnow.diffusion.pipeline import Diffusion
from minnow.llm.description import DESCRIPTION, Description
from minnow.llm.llm import LLM
from minnow.options.convert import BisectOptions, ConvertOptions, JsonCommand, WrittenOptions
from minnow.options.diffusion import PictureOptions, PipelineOptions, RunDiffusionCommand
from minnow.options.generate import (
    AnswerOptions,
    BenchLanguageCommand,
    ChatCommand,
    LanguageOptions,
    PerplexityCommand,
    RunLanguageCommand,
    ServeCommand,
)
from minnow.options.optimize import Int64, Target
from minnow.options.option import Options, choices, flags, is_names, plain_type, said
from minnow.options.quantize import QuantizeOptions
from minnow.options.read import InspectCommand, ReadOptions
from minnow.options.report import ReportCommand
from minnow.options.run import BenchmarkCommand, LoadOptions, RunCommand, RunOptions
from minnow.options.text import words
from minnow.options.verify import VerifyCommand, VerifyOptions
from minnow.options.workflow import CiCommand, DiffCommand, FleetCommand
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"

FUNCTIONS: dict[Any, type[Options]] = {
    minnow.convert: ConvertOptions,
    minnow.check: ReadOptions,
    minnow.verify: VerifyOptions,
    minnow.load: LoadOptions,
    minnow.quantize: QuantizeOptions,
    minnow.Model.session: RunOptions,
    bisect: BisectOptions,
    minnow.llm.load: LanguageOptions,
    LLM.generate: AnswerOptions,
    minnow.diffusion.load: PipelineOptions,
    Diffusion.generate: PictureOptions,
}
COMMANDS: dict[str, type[Options]] = {
    "benchmark": BenchmarkCommand,
    "check": ReadOptions,
    "ci": CiCommand,
    "convert": ConvertOptions,
    "debug bisect": BisectOptions,
    "diff": DiffCommand,
    "diffusion run": RunDiffusionCommand,
    "fleet": FleetCommand,
    "inspect": InspectCommand,
    "json": JsonCommand,
    "llm bench": BenchLanguageCommand,
    "llm chat": ChatCommand,
    "llm perplexity": PerplexityCommand,
    "llm run": RunLanguageCommand,
    "llm serve": ServeCommand,
    "optimize": WrittenOptions,
    "quantize": QuantizeOptions,
    "report": ReportCommand,
    "run": RunCommand,
    "verify": VerifyCommand,
}
KINDS = list(dict.fromkeys([*FUNCTIONS.values(), *COMMANDS.values()]))
OTHER_MEANING = {
    ("ops", "--framework"): "whose operators are listed; nothing is read",
    ("ops", "--passes"): "a switch: the passes are listed",
}


def found_commands(group: click.Group = app, names: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from found_commands(command, (*names, name))
        elif command is not None:
            yield " ".join((*names, name)), command


COMMAND_OF = dict(found_commands())


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_option_has_a_sentence_and_a_default(kind: type[Options]) -> None:
    for f in fields(kind):
        assert said(f).doc.endswith("."), f.name
        assert said(f).doc[0].isupper() or ":" in said(f).doc, f.name
        assert f.default is not MISSING, f.name
        assert isinstance(f.type, str) is False, "the annotations of option classes are not strings: types are read"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__qualname__)
def test_a_signature_shows_the_options(function: Any) -> None:
    kind = FUNCTIONS[function]
    written = inspect.signature(inspect.unwrap(function))
    shown = inspect.signature(function)
    own = [name for name in written.parameters if name != "options"]
    of_kind = inspect.signature(kind).parameters
    assert list(written.parameters)[-1] == "options"
    assert list(shown.parameters) == [*own, *of_kind]
    for name, parameter in of_kind.items():
        assert shown.parameters[name] == parameter
    assert shown.return_annotation == written.return_annotation
    documented = " ".join(function.__doc__.split())
    for f in fields(kind):
        assert f" {f.name}: {said(f).doc} {said(f).python}".rstrip() in documented


def test_options_are_given_by_name_and_the_first_of_a_session_by_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"convert\(\).*levle"):
        minnow.convert(DIGITS, levle=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"load\(\).*too many positional"):
        minnow.load(b"", 1, "high", 3.0)  # type: ignore[call-arg]
    report = minnow.convert(source=str(DIGITS), output=tmp_path / "d.mnn", optimize=0, verify=False)  # type: ignore[call-arg]
    model = minnow.Model(report.output)
    assert model.session(1, "low").stats["threads"] == minnow.load(report.output, threads=1).stats["threads"] == 1


@pytest.mark.parametrize("name", COMMAND_OF)
def test_every_flag_comes_from_a_field(name: str) -> None:
    """A flag that is written by hand belongs to one command alone, and is not the flag of an option elsewhere."""
    command = COMMAND_OF[name]
    context = click.Context(command, info_name=name)
    options = [p for p in command.get_params(context) if isinstance(p, click.Option) and p.name != "help"]
    made = [p for p in options if isinstance(p, Flag)]
    kind = COMMANDS.get(name)
    assert [p.field.name for p in made] == [f.name for f in fields(kind) if flags(f)] if kind else not made
    for p in made:
        assert p.help
        assert "/".join(flags(p.field)) in "/".join([*p.opts, *p.secondary_opts])
    of_options = {flag for k in KINDS for f in fields(k) for spelled in flags(f) for flag in spelled.split("/")}
    of_others = {
        flag: other for other, c in COMMAND_OF.items() if other != name for p in c.params for flag in (*p.opts,)
    }
    shared = {flag for decorator in (FORMAT, QUIET, STATS) for flag in decorated(decorator)}
    shared |= {flag for p in of_the_log() for flag in p.opts}
    for p in options:
        if p in made or OTHER_MEANING.get((name, p.opts[-1])):
            continue
        for flag in (*p.opts, *p.secondary_opts):
            assert flag not in of_options, f"{flag} of `{name}` is an option: use its field"
            assert flag in shared or flag not in of_others, f"{flag} is also written in `{of_others.get(flag)}`"


def decorated(decorator: Any) -> list[str]:
    @decorator
    def function() -> None: ...

    return [flag for p in function.__click_params__ for flag in p.opts]  # type: ignore[attr-defined]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0,"), min_size=1)
DIMS = st.lists(st.one_of(st.integers(0, 10**6), st.just("?")), max_size=4).map(tuple)
GIVEN = st.builds(Given, DIMS) | st.builds(Given, st.none() | DIMS, st.sampled_from([DType.F32, DType.I64, DType.BOOL]))


def values(f: Any) -> st.SearchStrategy[Any]:
    """What the command line can say of an option."""
    more, kind = said(f), plain_type(f)
    if not flags(f):
        return st.just(f.default)
    if f.name == "inputs":
        return st.none() | st.dictionaries(TEXT, GIVEN, min_size=1, max_size=3)
    if choices(f):
        return st.sampled_from(choices(f))
    if is_names(f):
        return st.lists(NAME, max_size=3).map(tuple)
    if more.repeated:
        return st.lists(TEXT, max_size=3).map(tuple)
    if kind is bool:
        return st.sampled_from([f.default, True, False])
    if kind is int:
        low, high = more.least or 0, more.most or 2**40 // more.unit
        return st.just(f.default) | st.integers(-(-int(low) // more.unit), int(high)).map(lambda n: n * more.unit)
    if kind is float:
        return st.just(f.default) | st.floats(
            more.least or more.above, 1e18, exclude_min=more.above is not None, allow_nan=False
        )
    return st.just(f.default) | TEXT


@st.composite
def options_of(draw: st.DrawFn, kind: type[Options]) -> Options:
    try:
        return kind(**{f.name: draw(values(f)) for f in fields(kind)})
    except UsageError:  # options that do not go together
        return kind()


@functools.cache
def language_model() -> str:
    """A folder with the description of a language model, which the commands for these look at first."""
    sizes = {"vocab_size": 8, "hidden_size": 8, "layers": 1, "heads": 1, "kv_heads": 1, "head_size": 8, "context": 8}
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    Path(folder.name, DESCRIPTION).write_text(Description("llama", "small", **sizes).text())
    return folder.name


def parsed(name: str, arguments: list[str]) -> Options:
    """The options that a command gets from its words."""
    command = COMMAND_OF[name]
    model = language_model() if name.startswith("llm ") else str(DIGITS)
    models = [model for p in command.params if isinstance(p, click.Argument) and p.required]
    context = command.make_context(name, [*models, *arguments])
    return taken(COMMANDS[name], dict(context.params))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMMANDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_command_line_says_what_the_options_are(name: str, data: st.DataObject) -> None:
    options = data.draw(options_of(COMMANDS[name]))
    said_so = words(options)
    if name == "optimize":  # where an output must be given
        options = WrittenOptions(**{**vars(options), "output": options.output or "o.mnn"})
        said_so = words(options)
    assert parsed(name, shlex.split(shlex.join(said_so))) == options
    assert not set(said_so) & set(words(type(options)())), "defaults are left out"


def test_a_symbol_stays_as_it_is_in_a_command_line() -> None:
    """By name it is one thing in Python and another on the command line, which has no names for dimensions."""
    said_so = words(ReadOptions(inputs={"x": ("N", 3), "y": ("int64", (1, "T"))}))
    assert said_so == ["--input=x=?x3", "--input=y=int64[1,?]"]


@pytest.mark.parametrize(
    ("kind", "name", "value", "hint"),
    [
        (ConvertOptions, "optimize", 4, "give a whole number from 0 to 3"),
        (ConvertOptions, "optimize", True, "give a whole number from 0 to 3"),
        (ConvertOptions, "target", "cpu", "use one of mnn, minnow"),
        (ConvertOptions, "int64", "wide", "use one of auto, narrow, keep"),
        (ConvertOptions, "batch", -1, "give a whole number of at least 0 or None"),
        (ConvertOptions, "tolerance", -0.5, "give a number of at least 0"),
        (ConvertOptions, "tolerance", float("nan"), "give a number of at least 0"),
        (ConvertOptions, "check_limit", None, "give a number of at least 0"),
        (RunOptions, "threads", 0, "give a whole number from 1 to 256 or None"),
        (RunOptions, "threads", 257, "give a whole number from 1 to 256 or None"),
        (RunOptions, "threads", 1.5, "give a whole number"),
        (RunOptions, "precision", "exact", "use one of high, normal, low"),
        (RunOptions, "timeout", 0, "give a number above 0"),
        (RunOptions, "timeout", float("inf"), "give a number above 0"),
        (RunOptions, "max_memory", "1 GB", "give a whole number of at least 1"),
        (RunOptions, "max_rounds", 2**63, "give a whole number of at least 1"),
        (VerifyCommand, "runs", 0, "give a whole number of at least 1"),
    ],
)
def test_what_is_out_of_range_is_refused(kind: type[Options], name: str, value: Any, hint: str) -> None:
    with pytest.raises(UsageError) as e:
        kind(**{name: value})
    assert e.value.message in (f"{name} is {value!r}", f"unknown {name} {value!r}")
    assert e.value.hint.startswith(hint)


@pytest.mark.parametrize(
    "arguments",
    [("convert", "-O4"), ("convert", "--target=cpu"), ("convert", "--batch=-1"), ("run", "--threads=257"),
     ("run", "--timeout=0"), ("run", "--max-memory=0"), ("verify", "--runs=0"), ("convert", "--tolerance=-1")],
    ids=" ".join,
)  # fmt: skip
def test_the_command_line_refuses_it_too(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(DIGITS)] * (2 if arguments[0] == "verify" else 1)
    assert run([arguments[0], *models, arguments[1]]) == 2
    assert arguments[1].partition("=")[0][:2] in capsys.readouterr().err


def test_a_tolerance_without_a_verification_is_refused() -> None:
    for given_too in ({"tolerance": 1e-3}, {"data": "x.npz"}):
        with pytest.raises(UsageError, match="switched off"):
            ConvertOptions(verify=False, **given_too)  # type: ignore[arg-type]


def test_conversions_have_the_limits_of_a_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of the verification has them, and that of --prepack."""
    output = str(tmp_path / "d.mnn")
    large = ["convert", str(DIGITS), "-o", output, "--input", "image=8192x1x8x8"]
    for way, code in (([], 4), (["--no-verify", "--prepack"], 3)):
        assert run([*large, "--max-memory", "1", *way]) == code
        assert "max_memory allows" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())
    seen: list[dict[str, Any]] = []
    load = minnow.load
    monkeypatch.setattr("minnow.runtime.session.load", lambda path, **given: seen.append(given) or load(path, **given))
    assert run(["convert", str(DIGITS), "-o", output, "--timeout", "60", "--max-rounds=9", "--prepack"]) == 0
    assert len(seen) == 2
    assert all(given["timeout"] == 60 and given["max_rounds"] == 9 for given in seen)


def test_what_the_layers_below_know_of_options_is_the_same() -> None:
    from minnow.converter.base import OPTIONS
    from minnow.optimizer import pipeline

    assert get_args(pipeline.Target) == get_args(Target)
    assert get_args(pipeline.Int64) == get_args(Int64)
    assert OPTIONS.keys() <= {f.name for f in fields(ReadOptions)}


@pytest.mark.parametrize("folder", ["minnow", "optimizer", "report", "runtime", "workflow"])
def test_no_function_says_a_list_of_options_again(folder: str) -> None:
    """Mappings of operators are another matter: their parameters are the attributes of the source format."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                assert count <= 12, f"{path.name}: {node.name} has {count} parameters"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "locals", f"{path.name}:{node.lineno}"


TYPED = """
import minnow
from pathlib import Path
report = minnow.convert("m.onnx", output=Path("m.mnn"), optimize=3, target="minnow", timeout=2.5)
reveal_type(report)
session = minnow.load(report.output, 2, precision="low")
reveal_type(session)
reveal_type(minnow.Model("m.mnn").session(threads=None))
minnow.verify("m.onnx", "m.mnn", runs=2, dequantize=True)
minnow.convert("m.onnx", levle=3)
minnow.convert("m.onnx", optimize="3")
minnow.load("m.mnn", precision="exact")
minnow.verify("m.onnx", "m.mnn", tolerance="low")
"""


@pytest.mark.slow
def test_type_checkers_see_every_option(tmp_path: Path) -> None:
    package = tmp_path / "minnow"
    package.mkdir()
    folders = [ROOT / name for name in ("schema", "converter", "optimizer", "runtime", "workflow", "report")]
    for entry in (*(ROOT / "minnow").iterdir(), *folders):
        (package / entry.name).symlink_to(entry)
    (tmp_path / "user.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "user.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True
    )
    rows = [row for row in done.stdout.splitlines() if " error: " in row or "Revealed type" in row]
    assert [row.split(":")[:2] for row in rows] == [["user.py", n] for n in ("5", "7", "8", "10", "11", "12", "13")]
    found = [
        "minnow.conversion_report.Report",
        "session.Session",
        "session.Session",
        "levle",
        "optimize",
        "exact",
        "tolerance",
    ]
    for row, text in zip(rows, found, strict=True):
        assert text in row
