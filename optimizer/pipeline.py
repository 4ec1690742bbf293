"""Runs the phases over a model: what `optimize` takes and gives."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, get_args

import minnow.optimizer.layout.assign
import minnow.optimizer.passes  # noqa: F401  (registers rules and passes)
from minnow.optimizer.facts.format import NATIVE, Target, engine_only, foreign_values, rounded_values
from minnow.optimizer.facts.limits import limits_of, name_of
from minnow.optimizer.passes.legalize.narrow import Int64, some_names
from minnow.optimizer.phases import Step, steps
from minnow.optimizer.portable import NoFormError, Portable, has_small_integers, portable
from minnow.optimizer.portable.sharing import keep_small, pack_weights, share_weights
from minnow.optimizer.rewrite import Trace, apply_groups, apply_pass, rules
from minnow.optimizer.rewrite import passes as all_passes
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import ModelError, UnsupportedError, UsageError
from minnow.schema.ir import DType, Graph, Model, Node
from minnow.schema.ir.blob import nbytes
from minnow.schema.limit import metered
from minnow.schema.notice import Notice
from minnow.schema.ops import Trait, get

Check = Callable[[str, Model], None]
_log = logging.getLogger(__name__)
_IN_FLOATS = "computed in float instead of integers of 8 bits"


@dataclass
class Summary:
    """What the optimizer did: nodes by op before and after, and what each rule did."""

    before: dict[str, int]
    after: dict[str, int]
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)


@SeldomCollected()
def optimize(
    model: Model,
    level: int = 2,
    *,
    target: Target = "mnn",
    passes: Sequence[str] = (),
    int64: Int64 = "auto",
    log: Trace | None = None,
    check: Check | None = None,
) -> Summary:
    """Optimizes a model in place and makes it ready for the file.

    Args:
        level: 0 only legalizes, 1 cleans up and folds, 2 fuses, 3 also applies what may change the last bits.
        target: who is to run the file: "mnn", any runtime of the format; "minnow", only Minnow's engine: nodes that
            others do not know, and nothing of what is only there for others.
        passes: names of rules and passes; those with a leading "-" are left out, if there are others only they run.
        int64: which integers become int32: those that fit ("auto"), all ("narrow") or none ("keep").
        log: collects statistics and reasons.
        check: called with the name of each step and the model after it.

    Raises:
        UsageError: `target`, `passes` or `int64` names something unknown.
    """
    for name, given, known in (("int64", int64, Int64), ("target", target, Target)):
        if given not in get_args(known):
            raise UsageError(f"{name} is {given!r}", hint=f"one of {', '.join(get_args(known))}")
    if int64 == "narrow" and target == "minnow":
        raise UsageError("int64 is to be narrowed, and the target is minnow", why="Minnow's engine has int64")
    log = log or Trace()
    keep = _selection(passes)
    for name in sorted(log.explain):
        log.unused[name] = why_not_run(name, level, target, passes)
    before = count_nodes(model.graph)
    with metered(constant_bytes(model.graph), nodes=False):
        _steps(model, level, target, passes, int64, keep, log, check)
    statistics = {
        name: {"tries": s.tries, "hits": s.hits, "ms": round(1e3 * s.seconds, 3), "removed": s.removed}
        for name, s in log.statistics.items()
    }
    return Summary(before, count_nodes(model.graph), statistics)


def constant_bytes(graph: Graph) -> int:
    """Bytes of all constants of a graph and those in it, each blob once."""
    blobs = {id(v.data): v.data for g in graph.walk() for v in g.constants() if v.data is not None}
    return sum(map(nbytes, blobs.values()))


def _steps(
    model: Model,
    level: int,
    target: Target,
    passes: Sequence[str],
    int64: Int64,
    keep: Callable[[str], bool],
    log: Trace,
    check: Check | None,
) -> None:
    for step in steps():
        if step.target is None:
            _run(model, step, level, target, keep, log, check)
    source = model.graph.clone() if target == "mnn" and has_small_integers(model.graph) else None
    _for_file(model, level, target, passes, int64, log, check)
    if target != "mnn":
        return
    if source is not None and (engine_only(model.graph) or foreign_values(model.graph)):
        _add_portable(model, source, level, passes)
    _notice(model)


def _for_file(
    model: Model, level: int, target: Target, passes: Sequence[str], int64: Int64, log: Trace, check: Check | None
) -> None:
    """The steps that are for files of a target only."""
    options: dict[str, dict[str, Any]] = {"narrow_types": {"int64": int64, "notices": model.notices}}
    for step in steps():
        if step.target == target:
            # A file cannot do without these, whatever was selected; what was left out by name stays out.
            named = options.get(step.name, {})
            _run(model, step, max(level, 1), target, lambda n: f"-{n}" not in passes, log, check, named)


def _add_portable(model: Model, source: Graph, level: int, passes: Sequence[str]) -> None:
    """Gives the model a second graph, if there is one that MNN's own runtime can run."""
    try:
        made = portable(source)
    except (NoFormError, ModelError, UnsupportedError) as reason:
        _log.debug("no graph for other runtimes: %s", reason)
        return
    twin = Model(made.graph, [*model.inputs], [*model.outputs])
    _for_file(twin, level, "mnn", passes, "auto", Trace(), None)
    if (ops := engine_only(twin.graph)) or foreign_values(twin.graph):
        _log.debug("no graph for other runtimes: they have no %s", ", ".join(ops) or "types for it")
        return
    keep_small(twin.graph)
    pack_weights(twin.graph)
    model.portable = twin.graph
    if made.in_floats:
        model.limits[_IN_FLOATS] = [name for _, names in sorted(made.in_floats.items()) for name in names]
    share_weights(model.graph, made.turned)
    model.notices.append(Notice(_portable_text(made), "second-graph"))


def _portable_text(made: Portable) -> str:
    def counted(ops: Mapping[str, int]) -> str:
        return ", ".join(f"{n} {op}" for op, n in sorted(ops.items()))

    floats = {op: len(nodes) for op, nodes in made.in_floats.items()}

    parts = []
    if made.in_integers:
        parts.append(f"computed with integers of 8 bits: {counted(made.in_integers)}")
    if floats:
        parts.append(f"computed in float: {counted(floats)}")
    return (
        "for MNN's own runtime the file holds a second graph, whose results may differ by a step of the integers: "
        + "; ".join(parts)
    )


def _notice(model: Model) -> None:
    texts = [
        f"MNN's own runtime gives other results: {reason}: {', '.join(dict.fromkeys(map(name_of, nodes)))}"
        for reason, nodes in limits_of(model.portable or model.graph, always=True).items()
    ]
    if model.portable is None:
        texts += _foreign(model)
    model.notices += [Notice(text, "not-for-mnn") for text in texts if text not in model.notices]


def _foreign(model: Model) -> list[str]:
    texts = []
    if ops := engine_only(model.graph):
        texts.append(f"MNN's own runtime cannot run: {', '.join(ops)}")
    for dtype, values in foreign_values(model.graph).items():
        hint = "; `--int64 narrow` makes int32 of them" if dtype is DType.I64 else ""
        texts.append(
            f"MNN's own runtime may not take the file: it has no {dtype}, which are {some_names(values)}{hint}"
        )
    if rounded := rounded_values(model.graph):
        texts.append(
            f"MNN's own runtime keeps the bits and the range of f32 where f16 has fewer: {some_names(rounded)}"
        )
    return texts


def _is_native(node: Node) -> bool:
    """Only what the format's runtime has the floats of can have a form of the format's own."""
    return all(v is None or v.type.dtype in NATIVE or not v.type.dtype.is_float for v in node.inputs)


def _run(
    model: Model,
    step: Step,
    level: int,
    target: Target,
    keep: Callable[[str], bool],
    log: Trace,
    check: Check | None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    if found := step.groups:
        may_run = lambda r: r.level <= level and r.target in (None, target) and keep(r.name)  # noqa: E731
        groups = [list(filter(may_run, group)) for group in found]
        apply_groups(model.graph, groups, log, _is_native if step.name == "legalize:*" else None)
    else:
        made = all_passes[step.name]
        # Those of level 0 always run, whatever was selected.
        if made.level > level or made.target not in (None, target) or not (keep(made.name) or made.level == 0):
            return
        apply_pass(made, model.graph, log, **options)
    if check is not None:
        check(step.name, model)


def _selection(names: Iterable[str]) -> Callable[[str], bool]:
    known = {*rules, *all_passes}
    wanted: set[str] = set()
    dropped: set[str] = set()
    for name in names:
        bare = name.removeprefix("-")
        if bare not in known:
            raise UsageError(f"there is no pass '{bare}'", hint=_nearest_names(bare))
        (dropped if name.startswith("-") else wanted).add(bare)
    return lambda name: name not in dropped and (not wanted or name in wanted)


def _nearest_names(name: str) -> str:
    """Names that are nearly this one, or hold it, and where all are listed."""
    known = sorted({*rules, *all_passes})
    near = dict.fromkeys([*get_close_matches(name, known, 3), *(k for k in known if name and name in k)][:5])
    return f"{', '.join(near)}? " * bool(near) + "`mnnconvert ops --passes` lists them"


def why_not_run(name: str, level: int, target: Target, selection: Sequence[str]) -> str:
    """Why a rule or pass does not run at all with these options; "" where it does.

    Raises:
        UsageError: there is none of that name.
    """
    item = rules.get(name) or all_passes.get(name)
    if item is None:
        raise UsageError(f"there is no rule or pass '{name}'", hint=_nearest_names(name))
    if item.target not in (None, target):
        return f"it is for `--target {item.target}` only"
    homes = [step for step in steps() if any(item in group for group in step.groups) or step.name == name]
    in_pipeline, in_legalize = (any((s.target is None) == free for s in homes) for free in (True, False))
    if in_legalize and target == "mnn" and item.level <= max(level, 1):
        return "`--passes` leaves it out" if f"-{name}" in selection else ""
    if not in_pipeline:
        return f"it makes a file that every runtime takes, which `--target {target}` does not ask for"
    if item.level > level:
        return f"it runs from -O{item.level} on"
    return "" if _selection(selection)(name) else "`--passes` leaves it out"


def count_nodes(graph: Graph) -> dict[str, int]:
    """Nodes by op, those of subgraphs included, most frequent first."""
    counter: Counter[str] = Counter()
    graphs = [graph]
    while graphs:
        for node in graphs.pop():
            counter[node.op] += 1
            if Trait.ONE_KERNEL not in get(node.op).traits:
                graphs += node.subgraphs.values()
    return dict(sorted(counter.items(), key=lambda kv: (-kv[1], kv[0])))
