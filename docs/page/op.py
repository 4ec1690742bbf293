"""Ops, op types of the format, and the optimizer."""

from __future__ import annotations

import re
from pathlib import Path

from page.markdown import ROOT, table


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
    return text + head + table(["op", "operands", "attributes", "MNN", "GPU", "gradient", "meaning"], rows)


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
    return head + table(["op type", "engine", "written"], rows)


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
        text += table(["step", *(["target"] * target), "why here"], rows)
    rules = [[f"`{name}`", *rest] for name, *rest in pass_rows()]
    return (
        "# The optimizer\n\nThe optimizer has four phases. A step is a pass, or groups of rules (`:*`) that "
        "run together until none of them applies any more. A step with a target runs for that target only, at every "
        "level.\n"
        + text
        + "\n## Passes and rules\n\nThe level is the lowest `-O` level at which the pass or rule runs; 0 means always. "
        + "A pass or rule with a target runs for that target only.\n\n"
        + table(["name", "level", "target", "what it does"], rules)
    )
