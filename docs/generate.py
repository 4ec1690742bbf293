"""Writes the parts of `docs/` and of the README that come from the registries and from the tables of measurements.

python docs/generate.py            # writes
python docs/generate.py --check    # fails when a page is stale
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import Field


HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path += [str(ROOT / "bench"), str(HERE)]  # chart.py, man.py
NOTICE = "<!-- Written by docs/generate.py; edit the code it describes. -->\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines) + "\n"


def _names_in(*sources: Path) -> set[str]:
    """What C++ sources quote, outside of comments: among that, the ops that they register kernels for."""
    return {name for s in sources for name in re.findall(r'"([A-Za-z0-9]+)"', re.sub(r"//.*", "", s.read_text()))}


def ops() -> str:
    """Every op of the IR."""
    from minnow.schema.ops import all_ops

    kernels = ROOT / "kernels"
    on_host = kernels / "gpu" / "on_host.cpp"
    on_gpus = _names_in(*(kernels / "gpu").rglob("*.cpp")) - _names_in(on_host)
    on_cuda = _names_in(*(kernels / "cuda").rglob("*.cpp"))
    rows = []
    for op in all_ops():
        operands = ", ".join(
            ("*" if i.variadic else "") + i.name + ("?" if i.optional and not i.variadic else "") for i in op.inputs
        )
        attrs = ", ".join(a.name if a.required else f"{a.name}={a.default!r}" for a in op.attrs.values())
        text = op.doc.partition("\n\n")[0].replace("\n", " ")
        gpu = "own" if op.name in on_cuda else "yes" if op.name in on_gpus else ""
        mnn = "yes" if op.mnn else ""
        slope = "yes" if op.gradient_rule else ""
        rows.append([f"`{op.name}`", f"`{operands}`", f"`{attrs}`" if attrs else "", mnn, gpu, slope, text])
    text = (
        "# Ops\n\nThe operations of Minnow's graphs. `?` marks optional operands, `*` any number. The column "
        "*MNN* says whether the `.mnn` format defines the op (for the usual types and attributes), so that MNN's own "
        "runtime can run it; the others are stored in a generic form that only Minnow's engine can run. The column "
        "*GPU* says whether CUDA, Vulkan and OpenCL have a kernel for it, *own* that CUDA has one of its own besides; "
        "all other ops run on the CPU: their shapes depend on contents, or they are lists, control flow or rare. "
        "The column *gradient* says whether the op can be differentiated, so that a graph with it can be trained.\n\n"
    )
    count = sum(row[4] != "" for row in rows)
    slopes = sum(row[5] != "" for row in rows)
    head = f"{len(rows)} ops, {count} of them on GPUs, {slopes} with a gradient.\n\n"
    return text + head + _table(["op", "operands", "attributes", "MNN", "GPU", "gradient", "meaning"], rows)


def op_types() -> str:
    """The op types of the `.mnn` format: which of them the engine decodes, and which our encoder writes."""
    from minnow.schema.mnn.wire import enums as known
    from minnow.schema.ops import all_ops

    read = set()
    for source in (ROOT / "runtime" / "src" / "decode").glob("*.cpp"):
        read |= set(re.findall(r"^ *MINNOW_DECODE(?:_UNARY)?\((\w+),", source.read_text(), re.MULTILINE))
    written = {kind for op in all_ops() if op.mnn for kind in op.mnn.types} | {"Input", "Const", "If", "While", "Extra"}
    names = [name for name in known["OpType"] if name in read | written]
    rows = [[f"`{n}`", "yes" if n in read else "", "yes" if n in written else ""] for n in names]
    total = len(known["OpType"])
    head = f"Of {total} op types the engine reads {len(read & set(names))}.\n\n"
    return head + _table(["op type", "engine", "written"], rows)


def operators(framework: str, title: str, about: str) -> str:
    """Operators of a source format."""
    from minnow.cli.ops import operator_rows

    rows = [[f"`{name}`", versions, note] for name, versions, note in operator_rows(framework)]
    read = sum(1 for _, versions, _ in rows if versions)
    return (
        f"# {title} operators\n\n{read} supported operators{about} An empty version means that the operator is "
        "unsupported; the note has the reason.\n\n" + _table(["operator", "versions", "note"], rows)
    )


def onnx() -> str:
    return operators("onnx", "ONNX", " of all opsets; the versions are opsets.")


def tflite() -> str:
    return operators("tflite", "TFLite", ": builtin operators, and custom operators by their custom code.")


def tensorflow() -> str:
    return operators("tensorflow", "TensorFlow", " of frozen graphs, SavedModels and Keras files.")


def caffe() -> str:
    return operators("caffe", "Caffe", ": the layer types of Caffe and of its forks.")


def torch() -> str:
    about = (
        ", by the schema names of TorchScript and torch.export. A name without an overload stands for all overloads."
    )
    return operators("torch", "PyTorch", about)


def passes() -> str:
    """The optimizer's pipeline and rules."""
    import minnow.optimizer.passes  # noqa: F401  (registers them)
    from minnow.cli.ops import pass_rows
    from minnow.optimizer.phases import PHASES

    text = ""
    for number, phase in enumerate(PHASES, 1):
        target = any(step.target for step in phase.steps)
        rows = [[f"`{s.name}`", *([s.target or ""] * target), s.why] for s in phase.steps]
        text += f"\n## {number}. {phase.name.capitalize()}\n\nAfter it, {phase.aim}.\n\n"
        text += _table(["step", *(["target"] * target), "why here"], rows)
    rules = [[f"`{name}`", *rest] for name, *rest in pass_rows()]
    return (
        "# The optimizer\n\nThe optimizer has four phases. A step is a pass, or groups of rules (`:*`) that "
        "run together until none of them applies any more. A step with a target runs for that target only, at every "
        "level.\n"
        + text
        + "\n## Passes and rules\n\nThe level is the lowest `-O` level at which the pass or rule runs; 0 means always. "
        + "A pass or rule with a target runs for that target only.\n\n"
        + _table(["name", "level", "target", "what it does"], rules)
    )


def options() -> str:
    """Every option: its name in Python, its flag, and what it means."""
    from minnow.options.convert import BisectOptions, ConvertOptions
    from minnow.options.generate import BenchLanguageCommand, PerplexityCommand, RunLanguageCommand, ServeCommand
    from minnow.options.option import Options, choices, flags, plain_type, said, section
    from minnow.options.report import ReportCommand
    from minnow.options.run import BenchmarkCommand, RunCommand, RunOptions
    from minnow.options.verify import VerifyCommand
    from minnow.options.workflow import CellsOptions, CiCommand, DiffCommand, FleetCommand

    def row(f: Field[Any]) -> list[str]:
        shown, of_type = plain_type(f), choices(f)
        type_ = ", ".join(of_type) if of_type else shown.__name__ if shown in (bool, int, float, str) else ""
        text = " ".join(filter(None, (said(f).doc, said(f).python)))
        default = "" if f.default in (None, "", ()) else f"`{f.default}`"
        return [f"`{f.name}`", ", ".join(f"`{n}`" for n in flags(f)), type_, default, text]

    header = ["in Python", "flag", "type", "default", "meaning"]
    seen: set[tuple[str, str]] = set()
    about = (
        "The arguments of `minnow.convert`, `check`, `verify`, `load`, `Model.session`, `llm.load` and `LLM.generate`, "
        "and the flags of `mnnconvert`; [the command line](cli.md) says which command has which. "
        "Where no default is shown it is None, or nothing."
    )
    titles = {
        ConvertOptions: "",
        RunOptions: "",
        VerifyCommand: " (`verify`)",
        RunCommand: " (`run`)",
        BenchmarkCommand: " (`benchmark`)",
        ReportCommand: " (`report`)",
        RunLanguageCommand: " (`llm`)",
        BenchLanguageCommand: " (`llm bench`)",
        PerplexityCommand: " (`llm perplexity`)",
        ServeCommand: " (`llm serve`)",
        CiCommand: " (`ci`)",
        FleetCommand: " (`fleet`)",
        DiffCommand: " (`diff`)",
        BisectOptions: " (`debug bisect`)",
    }
    tables: dict[str, list[list[str]]] = {}
    for kind, suffix in titles.items():
        for f in fields(kind):
            if (f.name, said(f).doc) not in seen:
                seen.add((f.name, said(f).doc))
                title = section(kind, f.name)
                title = (
                    "Python only"
                    if title == Options.SECTION
                    else title + suffix * (title not in ("Inputs", CellsOptions.SECTION))
                )
                tables.setdefault(title, []).append(row(f))
    parts = (f"## {title}\n\n{_table(header, rows)}" for title, rows in tables.items())
    return "\n".join([f"# Options\n\n{about}\n", *parts])


def configuration() -> str:
    """The keys of the configuration file."""
    from minnow.workflow.config.schema import key_tables

    header = ["key", "value", "default", "meaning"]
    return "\n".join(f"### {title}\n\n{about}\n\n{_table(header, rows)}" for title, about, rows in key_tables())


def cli() -> str:
    """The help texts of the command line."""
    import click

    from minnow.cli._app import app

    names = app.context_settings["help_option_names"]
    context = click.Context(
        app, info_name="mnnconvert", terminal_width=100, max_content_width=100, help_option_names=names
    )
    parts = ["# Command line\n", "```\n" + app.get_help(context) + "\n```\n"]
    parts.append(TERMINAL)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100, max_content_width=100)
        parts.append(f"## {name}\n\n```\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


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
    return f"# Rules of reports\n\n{about}\n\n" + _table(["rule", "level", "exit code", "meaning", "tags"], rows)


def report_kinds() -> str:
    """The kinds of reports."""
    from minnow.report.formats import format_of, kinds

    found = [format_of(kind) for kind in kinds()]
    return _table(
        ["kind", "usual name", "what it is"], [[f"`{f.kind}`", f.file and f"`{f.file}`", f.about] for f in found]
    )


def ci_report_schema() -> str:
    """The JSON schema of the machine-readable report."""
    from minnow.workflow.result import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"


def exit_codes() -> str:
    """The exit codes of the command line."""
    from minnow.cli._exit import exit_codes

    rows = [[str(e.code), e.meaning, ", ".join(f"`{name}`" for name in e.errors)] for e in exit_codes()]
    return _table(["exit code", "meaning", "in Python"], rows)


def mnn_flags() -> str:
    """The flags of MNN's converter, and what becomes of each."""
    from minnow.cli._mnn_flags import STATES, flag_rows

    states = "\n".join(f"- *{state}*: it {what}" for state, what in STATES.items())
    return f"{states}\n\n" + _table(["flag", "state", "what it does"], flag_rows())


def environment() -> str:
    """The environment variables."""
    from minnow.options.environment import VARIABLES

    return _table(["variable", "meaning"], [[f"`{v.name}`", v.meaning] for v in VARIABLES])


def manual() -> dict[str, str]:
    """The manual pages."""
    from man import pages

    return pages()


def support() -> str:
    """The README's table of what is supported."""
    import onnx as onnx_package

    from minnow.converter.formats import frontends
    from minnow.converter.onnx.reader import OLDEST_OPSET
    from minnow.optimizer.rewrite import passes as all_passes
    from minnow.optimizer.rewrite import rules
    from minnow.schema.ops import all_ops

    ops_ = all_ops()
    native = sum(1 for op in ops_ if op.mnn)
    read = {name: len(frontend.mappings) for name, frontend in frontends().items()}
    schemas = {name.partition(".")[0] for name in frontends()["torch"].mappings}
    newest = onnx_package.defs.onnx_opset_version()
    rows = [
        ["sources", f"ONNX, opsets {OLDEST_OPSET} to {newest}: {read['onnx']} operators; functions; external data"],
        ["", f"TFLite: {read['tflite']} operators; float, float16, dynamic range, 8 and 16 bits; signatures; states"],
        [
            "",
            f"TensorFlow: {read['tensorflow']} operators; graphs, SavedModels, Keras files; both kinds of control flow",
        ],
        ["", f"PyTorch: {len(schemas)} operators; torch.export, TorchScript, modules; quantized modules; states"],
        ["", f"Caffe: {read['caffe']} layer types; all versions of the format, SSD and other forks"],
        ["control flow", "If, Loop and Scan, also nested and with captured values; sequences and optionals"],
        ["ops", f"{len(ops_)}, of which the `.mnn` format defines {native}, so that MNN can run them, too"],
        ["optimizer", f"{len(rules)} rewrite rules and {len(all_passes)} passes, levels -O0 to -O3"],
        ["shapes", "static; dynamic dimensions; shapes that depend on values"],
        ["types", "f64, f32, f16, bf16, float8, float4; integers of 2 to 64 bits, bool"],
        ["engine", "CPU, multi-threaded: AVX-512, AVX2 or SSE4, chosen at run time; NEON on Arm"],
        ["", "GPUs: CUDA, Vulkan and OpenCL, alone or together with the CPU"],
        ["language models", "chat, server with OpenAI's paths, continuous batching, guessed tokens, perplexity"],
    ]
    return _table(["what", "supported"], rows)


def chart() -> str:
    """The times of the bench table as bars."""
    from chart import TABLE, draw

    return draw(TABLE.read_text())


def speed() -> str:
    """The ratios of the bench table for one and two threads side by side."""
    from chart import PEERS, TABLE, rows

    table = TABLE.read_text()
    one, two = ({row.model: row for row in rows(table, threads)} for threads in (1, 2))
    header = ["model"]
    for threads in ("1 thread", "2 threads"):
        header += [f"{threads}, ms", "onnxruntime", "OpenVINO", "fastest"]
    lines = []
    for model in one:
        cells = [model]
        for row in (one[model], two[model]):
            peer = max(row.ratios, key=lambda name: row.ratios[name])
            cells += [f"{row.ms:.2f}", *(f"{row.ratios[name]:.2f}" for name in ("ort", "ov"))]
            cells.append(f"{row.ratios[peer]:.2f} {PEERS[peer]}")
        lines.append(cells)
    return _table(header, lines)


def _cells(page: str) -> Iterator[list[str]]:
    """The lines of all tables of a page, cell by cell."""
    for line in (HERE / page).read_text().splitlines():
        if line.startswith("|"):
            yield [cell.strip(" *") for cell in line.strip("|").split("|")]


def summary() -> str:
    """The README's chart, and a line for each page of measurements."""
    from chart import TABLE, mean

    onnx_, tensorflow_ = (line for line in _cells("correctness.md") if line[0] == "all")
    peers = [cell.partition(" (")[0] for cell in onnx_[2:]]
    correct = (
        f"{peers[0]} of {onnx_[1]} backend tests of ONNX pass "
        f"(onnxruntime: {peers[1]}, OpenVINO: {peers[2]}, MNN: {peers[3]}); "
        f"{tensorflow_[2]} of {tensorflow_[1]} generated TensorFlow and TFLite models "
        f"(OpenVINO: {tensorflow_[3]}, MNN: {tensorflow_[4]})"
    )
    header, _, *models = _cells("size.md")
    counts = [dict(zip(header, line, strict=True)) for line in models]
    others = header[2:-2]
    smallest = [min(int(line[name]) for name in others if line[name].isdigit()) for line in counts]
    ours = [int(line["Minnow"]) for line in counts]

    def fewer(than: list[int]) -> str:
        logs = [math.log(mine / other) for mine, other in zip(ours, than, strict=True)]
        return f"{1 - math.exp(sum(logs) / len(logs)):.0%}"

    size = (
        f"{fewer([int(line['nodes']) for line in counts])} fewer nodes than the source and {fewer(smallest)} fewer "
        f"than the best of {len(others)} other optimizers "
        f"(geometric means over {len(counts)} models, `--target minnow`)"
    )
    table = TABLE.read_text()
    times = (
        f"{mean(table, 1)} of the time of the fastest other runtime with one thread, {mean(table, 2)} with two "
        "(geometric means over the models of the chart)"
    )
    rows = [
        ["correctness", correct, "[all suites](docs/correctness.md)"],
        ["graph size", size, "[all models](docs/size.md)"],
        ["speed", times, "[all models](docs/speed.md)"],
    ]
    image = "![Time of one inference by Minnow and by other runtimes, as bars for each model](docs/speed.svg)"
    return f"{image}\n\n" + _table(["what", "result", "details"], rows)


def _filled(page: str, parts: dict[str, Callable[[], str]]) -> str:
    """A page written by hand whose marked parts are made anew."""
    text = (ROOT / page).read_text()
    for name, part in parts.items():
        begin, end = f"<!-- {name}: written by docs/generate.py -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{part()}\n{end}{rest.partition(end)[2]}"
    return text


TERMINAL = """\
## Completion, manual pages, logs, colors

**Completion.** The Tab key completes commands, flags, their values, and models:

| shell | to switch it on |
| --- | --- |
| bash | add `eval "$(mnnconvert completion bash)"` to `~/.bashrc` |
| zsh | add `eval "$(mnnconvert completion zsh)"` to `~/.zshrc` |
| fish | `mnnconvert completion fish > ~/.config/fish/completions/mnnconvert.fish` |

**Manual pages.** `pip` installs them: `man mnnconvert`, and `man mnnconvert-convert` for the command `convert`.

**Steps and logs.** `-v` shows what is being done, and how long it took, on standard error; `-vv` shows all details.
Every command has `--log-file FILE`: all details, errors with their tracebacks, and the exit code are appended to FILE,
with date and time. The first entry of a run is its command line. A file that is not a log is refused. In Python,
`logging` gets the same records from the loggers below `minnow`.

**Colors.** Verdicts and messages are colored on terminals, and a line with the current step is redrawn there.
`NO_COLOR`, `FORCE_COLOR`, `TERM=dumb` and `CI` change that:
[environment variables](troubleshooting.md#environment-variables). Files and pipes get plain text, and standard output
has the result only.

"""


def mnn_runtime() -> str:
    """How files of the target `mnn` have each op, and whether MNN's own runtime gives the same numbers."""
    from minnow.schema.ops import all_ops

    record = json.loads((HERE / "mnn_runtime.json").read_text())
    forms = {"own": "own form", "combination": "combination", "second": "second graph", "form": "only Minnow",
             "type": "type only Minnow has"}  # fmt: skip
    suites = {
        "op": "samples of all ops of Minnow's graphs, alone",
        "shared": "real models in six formats",
        "onnx": "ONNX's backend tests",
        "caffe": "generated Caffe nets",
        "tf": "generated TensorFlow and TFLite models",
        "torch": "PyTorch's samples of its operators, traced",
    }
    first = ("right", "rounded", "noted", "named", "not converted")
    rows = []
    for suite, about in suites.items():
        kinds = record[suite]["kinds"]
        rest = sum(n for kind, n in kinds.items() if kind not in first)
        rows.append([about, *(str(kinds.get(kind, 0)) for kind in first), str(rest)])
    reasons: dict[str, int] = {}
    for suite in suites:
        for kind, n in record[suite]["kinds"].items():
            if kind not in first:
                reasons[kind] = reasons.get(kind, 0) + n
    ops = []
    for op in all_ops():
        row = record["op"]["ops"].get(op.name, {})
        others = [f"{n}: {kind}" for kind, n in row.items() if kind not in forms and kind not in first]
        ops.append([f"`{op.name}`", *(str(row.get(f) or "") for f in (*forms, "right", "noted")), "; ".join(others)])
    return (
        "# Files for MNN's own runtime\n\nA file of the target `mnn` is for every runtime of the format. What the "
        "format has no form for is written as a combination of ops that it has. The rest only Minnow's engine runs: a "
        "note of the conversion names it, and `--strict-target` refuses such a model with exit code 3.\n\n"
        "## Quantized models\n\n"
        "Minnow's engine computes quantized layers exactly as the source does. MNN's runtime has no such ops; "
        "its own integers are tensors of floats that it rounds to 8 bits. So the file of a quantized model "
        "holds two graphs with the same inputs and outputs. Minnow's engine runs the first one, and MNN's "
        "runtime the second one, in which convolutions, matrix products with constants and sums are computed "
        "with integers of 8 bits, and the rest with floats. A layer of it may differ from the first graph by "
        "a step of its integers; over many layers that adds up. A conversion says how many ops of the second "
        "graph are computed how, and by how much its outputs differ from those of the source. Weights of the "
        "same bytes are in the file once. There is a second graph only in files of the usual form: not with "
        "compressed weights, and not with a companion weights file.\n\n"
        "Depthwise convolutions whose weights have a zero point, and convolutions in groups, are computed "
        "with floats, since MNN's runtime has wrong results for them in integers; and so is pooling.\n\n"
        "## Limits that depend on numbers\n\n"
        "MNN's kernels make numbers of NaN and infinities, or lose them. A conversion counts the nodes that "
        "this and other limits concern, and its JSON lists them under `limits`. They do not keep `--strict-target` "
        "from writing the file.\n\n"
        "## What was measured\n\nThe files of all suites in the runtime of MNN 3.6.1, on the CPU, compared with "
        "Minnow's engine.\n\n"
        "- *same*: the numbers are the same; of a second graph, beside them by a step at most\n"
        "- *rounded*: those of a second graph, whose roundings to 8 bits have added up. For single ops the error is "
        "below 1% of how much the numbers vary. For networks of many layers it is far more: 22% for the points that "
        "MoveNet finds, 25% for the two results of `person_detect`, 6 steps where they are 48 apart, and below 40% for "
        "generated TFLite models\n"
        "- *noted*: the numbers met a limit that the conversion says of the file\n"
        "- *named*: the conversion names what MNN cannot run\n"
        "- *otherwise*: MNN takes the file and does something else, and the conversion says nothing\n\n"
        + _table(["suite", "same", "rounded", "noted", "named", "not converted", "otherwise"], rows)
        + "".join(f"\n- {reason}: {n} {'case' if n == 1 else 'cases'}" for reason, n in sorted(reasons.items()))
        + "\n## Ops\n\nThe numbers count samples, each with operands that are constants and with operands that are "
        "computed: how the file has them, and for how many MNN's runtime gave the numbers of Minnow's engine.\n\n"
        + _table(["op", *forms.values(), "same", "noted", "otherwise"], ops)
    )


def express() -> str:
    """The names of the packages that users of MNN know."""
    from minnow.expr.names import PACKAGES, all_names

    out = []
    for package in PACKAGES:
        names = all_names(package)
        functions = [n for n in names if n.callable]
        if not names:
            continue
        rows = []
        for name in functions:
            theirs = f"`MNN.{name.package}.{name.name}`" if name.mnn else ""
            rows.append([theirs, f"`{name.ours}`", f"`{name.like}`" if name.like else "", name.note])
        own = sum(not n.mnn for n in functions)
        count = f"{len(functions)} functions and classes" + (f", {own} of which MNN does not have" if own else "")
        out.append(f"### minnow.{package}\n\n{count}.\n\n")
        out.append(_table(["MNN", "Minnow", "corresponds to", "difference from that"], rows))
        if constants := [f"`{n.name}`" for n in names if not n.callable]:
            out.append(f"\n{len(constants)} constants: {', '.join(constants)}.\n")
        out.append("\n")
    return "".join(out).rstrip("\n") + "\n"


def session_settings() -> str:
    """The modes and hints of MNN's sessions and runtime managers."""
    from minnow.interpreter.setting import HINTS, MODES

    rows = []
    for kind, wishes in (("mode", MODES), ("hint", HINTS)):
        for number, wish in enumerate(wishes):
            rows.append([f"{kind} {number}", f"`{wish.name}`", wish.effect or f"none: {wish.why}"])
    return _table(["number", "name", "what it changes"], rows)


def architectures() -> str:
    """The families of language models that are converted."""
    from minnow.converter.llm.architecture import architectures as known
    from minnow.converter.llm.gguf.hyperparameter import MODEL_TYPES

    named: dict[str, list[str]] = {}
    for gguf, model_type in MODEL_TYPES.items():
        named.setdefault(model_type, []).append(f"`{gguf}`")
    named["mixtral"] = named["mistral"] = named["llama"]  # which are the same to GGUF
    rows = [[f"`{k}`", a.title, ", ".join(named.get(k, []))] for k, a in known().items()]
    return _table(["`model_type`", "models", "in GGUF"], rows)


def rotary() -> str:
    """How contexts are made longer."""
    from minnow.converter.llm.rotary import WAYS

    names = ", ".join(f"`{name}`" for name in WAYS)
    return f"Rotary positions are scaled in the ways that `rope_parameters` or `rope_scaling` name: {names}.\n"


PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops,
    "mnn-runtime.md": mnn_runtime,
    "onnx.md": onnx,
    "tflite.md": tflite,
    "tensorflow.md": tensorflow,
    "caffe.md": caffe,
    "torch.md": torch,
    "passes.md": passes,
    "cli.md": cli,
    "options.md": options,
    "ci-rules.md": ci_rules,
}

PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"measured": summary, "support": support},
    "docs/speed.md": {"speed": speed},
    "docs/ci-reports.md": {"kinds": report_kinds},
    "docs/format.md": {"op types": op_types},
    "docs/troubleshooting.md": {"exit codes": exit_codes, "environment": environment},
    "docs/configuration.md": {"keys": configuration},
    "docs/mnn.md": {"flags": mnn_flags},
    "docs/llm.md": {"architectures": architectures, "rotary": rotary},
    "docs/express.md": {"names": express, "settings": session_settings},
}
"""Parts of pages that are written by hand."""


def main() -> int:
    os.environ["COLUMNS"] = "100"
    stale = []
    pages = {HERE / name: NOTICE + page() for name, page in PAGES.items()}
    pages[HERE / "speed.svg"] = chart()
    pages[HERE / "ci-report.schema.json"] = ci_report_schema()
    pages |= {ROOT / page: _filled(page, parts) for page, parts in PARTS.items()}
    pages |= {HERE / "man" / name: text for name, text in manual().items()}
    for path in set((HERE / "man").glob("*")) - pages.keys():
        stale.append(path.name)  # of a command that is no more
        if "--check" not in sys.argv:
            path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"stale pages in docs/: {', '.join(stale)}; `./dev docs` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
