"""The packages that users of MNN know."""

from __future__ import annotations

from page.markdown import table


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
        out.append(table(["MNN", "Minnow", "corresponds to", "difference from that"], rows))
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
    return table(["number", "name", "what it changes"], rows)
