"""Writes the pages of `docs/` that come from the registries.

python docs/generate.py            # writes
python docs/generate.py --check    # fails when a page is stale
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
NOTICE = "<!-- Written by docs/generate.py; edit the code it describes. -->\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines) + "\n"


def ops() -> str:
    """Every op of the IR."""
    from minnow.schema.ops import all_ops

    rows = []
    for op in all_ops():
        operands = ", ".join(
            ("*" if i.variadic else "") + i.name + ("?" if i.optional and not i.variadic else "") for i in op.inputs
        )
        attrs = ", ".join(a.name if a.required else f"{a.name}={a.default!r}" for a in op.attrs.values())
        text = op.doc.partition("\n\n")[0].replace("\n", " ")
        rows.append([f"`{op.name}`", f"`{operands}`", f"`{attrs}`" if attrs else "", "yes" if op.mnn else "", text])
    text = (
        "# Ops\n\n`?` marks optional operands, `*` any number. The column *format* says whether the `.mnn` format has "
        "a form of its own for the op (for the usual types and attributes); the others are written in a generic form "
        "that only Minnow's engine runs.\n\n"
    )
    return text + f"{len(rows)} ops.\n\n" + _table(["op", "operands", "attributes", "format", "meaning"], rows)


def operators(framework: str, title: str, about: str) -> str:
    """Operators of a source format."""
    from minnow.cli.ops import operator_rows

    rows = [[f"`{name}`", versions, note] for name, versions, note in operator_rows(framework)]
    read = sum(1 for _, versions, _ in rows if versions)
    return f"# {title} operators\n\n{read} operators{about}\n\n" + _table(["operator", "versions", "note"], rows)


def onnx() -> str:
    return operators("onnx", "ONNX", ", of every opset.")


def tflite() -> str:
    return operators("tflite", "TFLite", ": the builtin ones, and custom ones by their code.")


def tensorflow() -> str:
    return operators("tensorflow", "TensorFlow", ", in frozen graphs and SavedModels.")


def caffe() -> str:
    return operators("caffe", "Caffe", ", of Caffe itself and of its forks, by the types of layers.")


def torch() -> str:
    about = ", by the schemas of TorchScript and of exported programs. Without an overload: all of them."
    return operators("torch", "PyTorch", about)


def passes() -> str:
    """The optimizer's pipeline and rules."""
    from minnow.cli.ops import pass_rows
    from minnow.optimizer.pipeline import LEGALIZE, PIPELINE

    steps = [[f"`{name}`", why] for name, why in PIPELINE]
    legal = [[f"`{name}`", why] for name, why in LEGALIZE]
    rules = [[f"`{name}`", *rest] for name, *rest in pass_rows()]
    return (
        "# The optimizer\n\n## Pipeline\n\n"
        + _table(["step", "why here"], steps)
        + "\n## Making the graph fit every runtime of the format\n\nFor `--target mnn`, which is the default.\n\n"
        + _table(["step", "why here"], legal)
        + "\n## Passes and rules\n\nThe level is the lowest `-O` at which one runs; 0 always. "
        + "One with a target runs for that one only.\n\n"
        + _table(["name", "level", "target", "what it does"], rules)
    )


def cli() -> str:
    """The help texts of the command line."""
    import click

    from minnow.cli._app import app

    context = click.Context(app, info_name="mnnconvert", terminal_width=100, max_content_width=100)
    parts = ["# Command line\n", "```\n" + app.get_help(context) + "\n```\n"]
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100, max_content_width=100)
        parts.append(f"## {name}\n\n```\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


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
        ["sources", f"ONNX, opsets {OLDEST_OPSET} to {newest}: {read['onnx']} operators, functions, external data"],
        ["", f"TFLite: {read['tflite']} operators; float, float16, dynamic range, 8 and 16 bits; signatures, states"],
        ["", f"TensorFlow: {read['tensorflow']} operators; graphs, SavedModels, Keras files; both control flows"],
        ["", f"PyTorch: {len(schemas)} operators; torch.export, TorchScript, modules; quantized; states"],
        ["", f"Caffe: {read['caffe']} types of layers; all versions of the format, SSD and other forks"],
        ["control", "If, Loop and Scan, nested, with captures; sequences and optionals"],
        ["ops", f"{len(ops_)}, of which {native} have a form that the MNN runtime knows too"],
        ["optimizer", f"{len(rules)} rewrite rules and {len(all_passes)} passes, levels -O0 to -O3"],
        ["shapes", "fixed, symbolic, and known only at run time"],
        ["types", "f64, f32, f16, bf16, float8, float4; integers of 2 to 64 bits, bool"],
        ["engine", "CPU: AVX-512, AVX2, SSE4, chosen at run time, or NEON; threads"],
    ]
    return "\n" + _table(["what", "how much"], rows)


_BEGIN, _END = "<!-- support: written by docs/generate.py -->", "<!-- end of support -->"


def readme() -> str:
    """The README with its table made anew."""
    head, _, rest = (HERE.parent / "README.md").read_text().partition(_BEGIN)
    return head + _BEGIN + "\n" + support() + "\n" + _END + rest.partition(_END)[2]


PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops,
    "onnx.md": onnx,
    "tflite.md": tflite,
    "tensorflow.md": tensorflow,
    "caffe.md": caffe,
    "torch.md": torch,
    "passes.md": passes,
    "cli.md": cli,
}


def main() -> int:
    os.environ["COLUMNS"] = "100"
    stale = []
    pages = {HERE / name: NOTICE + page() for name, page in PAGES.items()} | {HERE.parent / "README.md": readme()}
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"stale pages in docs/: {', '.join(stale)}; `./dev docs` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
