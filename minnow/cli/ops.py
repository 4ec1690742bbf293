"""mnnconvert ops"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, Command, emit, table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _frameworks(ctx: click.Context, param: click.Parameter, start: str) -> list[CompletionItem]:
    from minnow.cli._complete import framework_items

    return framework_items(start)


@click.command(cls=Command)
@click.option(
    "-f", "--framework", shell_complete=_frameworks,
    help="List the operators of this source format instead of Minnow's ops.",
)  # fmt: skip
@click.option("--passes", is_flag=True, help="List the optimizer's passes instead.")
@FORMAT
def command(framework: str | None, passes: bool, format_: str) -> None:
    """List ops, operators of a source format, or optimizer passes."""
    if passes:
        rows = pass_rows()
        header = ["pass", "level", "target", "what it does"]
    elif framework:
        rows = operator_rows(framework)
        header = ["operator", "versions", "note"]
    else:
        rows = op_rows()
        header = ["op", "inputs", "attributes", "in MNN's runtime"]
    emit([dict(zip(header, r, strict=True)) for r in rows], format_, lambda: table(header, rows, right=99))


def op_rows() -> list[list[str]]:
    """One row per op: its signature, and whether MNN's runtime supports it."""
    from minnow.schema.ops import all_ops

    return [
        [
            op.name,
            ", ".join(
                ("*" if i.variadic else "") + i.name + ("?" if i.optional and not i.variadic else "") for i in op.inputs
            ),
            ", ".join(op.attrs),
            "yes" if op.mnn else "",
        ]
        for op in all_ops()
    ]


def operator_rows(framework: str) -> list[list[str]]:
    """One row per operator of a source format: name, supported versions, notes."""
    from minnow.converter.formats import frontends
    from minnow.schema.errors import UsageError

    table_ = frontends()
    if framework.lower() not in table_:
        raise UsageError(f"unknown framework '{framework}'", hint=f"use one of {', '.join(sorted(table_))}")
    frontend = table_[framework.lower()]
    bodies = frontend.bodies()
    rows = []
    for name in sorted({*frontend.mappings, *bodies, *frontend.refusals, *frontend.left_out}):
        versions = _ranges((m.since, m.until) for m in frontend.mappings.get(name, []))
        notes = [f"not converted: {r.why}" for r in frontend.refusals.get(name, [])]
        if not versions and name in bodies:
            versions, notes = [f"{bodies[name]}+"], ["decomposed as the standard defines", *notes]
        if not versions and name in frontend.left_out:
            versions, notes = ["1+"], [frontend.left_out[name]]
        rows.append([name, ", ".join(versions), "; ".join(notes)])
    return rows


def _ranges(spans: Iterable[tuple[int, int | None]]) -> list[str]:
    """The ranges of versions that several mappings cover together, as text."""
    joined: list[tuple[int, float]] = []
    for since, until in sorted((since, until or float("inf")) for since, until in spans):
        if joined and since <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], until)
        else:
            joined.append((since, until))
    return [f"{a}+" if b == float("inf") else f"{a}" if a == b else f"{a}-{b:.0f}" for a, b in joined]


def pass_rows() -> list[list[str]]:
    """One row per pass and rule: name, lowest level, target if it is for one only, description."""
    import minnow.optimizer.pipeline  # noqa: F401  (registers them)
    from minnow.optimizer.rewrite import GraphPass, Rule, passes, rules

    found: list[GraphPass | Rule] = [*passes.values(), *rules.values()]
    return [
        [p.name, str(p.level), p.target or "", p.doc.partition("\n")[0].removeprefix("Given:")]
        for p in sorted(found, key=lambda p: p.name)
    ]
