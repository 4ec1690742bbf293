"""The pipeline: one list, in order, with the reason for each place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, get_args

import minnow.optimizer.layout.assign  # noqa: F401  (registers its pass)
from minnow.optimizer.facts.format import NATIVE, Target, engine_only, foreign_values
from minnow.optimizer.passes import GROUPS
from minnow.optimizer.passes.legalize.narrow import Int64, some_names
from minnow.optimizer.rewrite import Rule, Trace, apply_pass, apply_rules, rules
from minnow.optimizer.rewrite import passes as all_passes
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType, Graph, Model, Node
from minnow.schema.ir.blob import nbytes
from minnow.schema.limit import metered
from minnow.schema.ops import Trait, get

Check = Callable[[str, Model], None]

# A line is a pass, or "group:*" for all rules of that group in `passes/__init__.py`, which run together to a fixpoint.
PIPELINE: tuple[tuple[str, str], ...] = (
    ("inline_fused", "rules know the nodes that an earlier run has joined by themselves, and so do other runtimes"),
    ("qdq:*", "integers that say what they mean must not become floats first"),
    ("fold_constants", "shapes, axes and conditions must be numbers before rules look at them"),
    ("decide_branches", "and those that are left hang on the input, or only seem to"),
    ("name_extents", "what is computed of an open extent is known to be equal by its name"),
    ("identity:*", "what does nothing must not stand between the parts of a pattern"),
    ("fuse_recurrent_loops", "layers must be one node before rules change what stands in their loops"),
    ("fuse_other_recurrent_loops", "after those of the usual functions, which other runtimes have, too"),
    ("prune_loop", "what a loop carries for nobody would be written out with its rounds"),
    ("unroll_loop", "a few rounds that are no layer are nodes like others, which rules see together"),
    ("hoist_invariants", "of the loops that are left; a layer reads its weights in each round"),
    ("hoist_common", "of the branches that are left, which others see nothing of"),
    ("choose_results", "where little is left of both branches"),
    ("sequence:*", "tensors that a sequence is known to hold must be seen by all that follow"),
    ("shape:*", "constant shapes let the movement rules see what a reshape does"),
    ("eliminate_repetition", "masks and places are small before anything is computed of them"),
    ("logic:*", "what is known of truth values and whole numbers, of which shapes and choices are made"),
    ("eliminate_dead", "shapes that nobody asks for any more must not count as readers"),
    ("eliminate_common", "patterns want one value where the source computes the same twice"),
    ("rotary:*", "while its halves are cut as the source cuts them"),
    ("movement:*", "transposes and reshapes that cancel must be gone before convolutions look at their neighbors"),
    ("sink_transposes", "pairs that do not touch, after those that do"),
    ("ones:*", "what moves nothing is a reshape, once none of the others can meet it any more"),
    ("eliminate_common", "constants that were transposed for each of their readers"),
    ("rotary:*", "where that took a view away, or a transpose that moves nothing but its rows"),
    ("movement:*", "a transpose that has moved may stand beside another one now"),
    ("activation:*", "activations must be one node before they are fused into what they follow"),
    ("mean:*", "means must be one node before norms are seen in them"),
    ("norm:*", "after activations, whose square roots and divisions look alike"),
    ("reduction:*", "after norms, which are made of means of pixels and sums of squares, too"),
    ("arithmetic:*", "after norms, which are recognized by their divisions, and before layers that take in factors"),
    ("matmul:*", "matrix products must be Linear before activations could join them"),
    ("attention:*", "after matrix products have their final form, and before activations go into those beside it"),
    ("shape:*", "the extents of what attention gives are known, which those of its parts may not have been"),
    ("attention:*", "and what moves the result by them can be seen through"),
    ("matmul:*", "what turned and flattened the result of attention may stand between layers only now"),
    ("fuse_attention_cache", "keys and values of which attention is given all, once that is one node"),
    ("qdq:*", "those that others stood between; before layers take in activations, which saturation may do"),
    ("fold_constants", "tables that take the place of functions"),
    ("convolution:*", "takes in padding, scale, bias and activation, so it comes when these have their final form"),
    ("quantized:*", "once no transpose stands between the parts of a layer, and it pads by itself"),
    ("tiles:*", "other rules know parts as slices"),
    ("pooled:*", "other rules know means of channels as a pooling"),
    ("identity:*", "folding scales leaves additions of zero and multiplications by one"),
    ("epilogue:*", "what layers do with their results, once these are final: no rule looks for the parts any more"),
    ("eliminate_common", "what the rules have made alike"),
    ("fuse_elementwise", "takes in whatever no other rule has made use of"),
    ("eliminate_dead", "what the rules have left over"),
)

LEGALIZE: tuple[tuple[str, str], ...] = (
    ("narrow_types", "types first: the rules ask which ops have a form in the file, and that depends on types"),
    ("legalize:*", "ops without a form of the format's own become ops that have one"),
    ("fold_constants", "decompositions compute with constants"),
    ("identity:*", "and leave casts that do nothing"),
    ("ones:*", "and views around layers that have one spatial axis"),
    ("movement:*", "which cancel between them"),
    ("convolution:*", "and activations that begin with a factor and a summand"),
    ("eliminate_common", "decompositions repeat themselves"),
    ("eliminate_dead", "nothing unused goes into the file"),
    ("split_products", "when all products of integers are there that will be"),
    ("lower_bools", "after the last folding, which would make constants of them again"),
    ("assign_layout", "last: every node that is there now needs its layout, and none may come after"),
)
"""For every runtime of the format, at every level: a file for them can only hold what they know."""


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
    options: dict[str, dict[str, Any]] = {"narrow_types": {"int64": int64, "notices": model.notices}}
    for name, _ in PIPELINE:
        _run(model, name, level, target, keep, log, check)
    if target == "mnn":
        for name, _ in LEGALIZE:
            # A file cannot do without these, whatever was selected; what was left out by name stays out.
            _run(model, name, max(level, 1), target, lambda n: f"-{n}" not in passes, log, check, options.get(name, {}))
        _notice(model)


def _notice(model: Model) -> None:
    texts = []
    if ops := engine_only(model.graph):
        texts.append(f"MNN's own runtime cannot run: {', '.join(ops)}")
    for dtype, values in foreign_values(model.graph).items():
        hint = "; `--int64 narrow` makes int32 of them" if dtype is DType.I64 else ""
        texts.append(
            f"MNN's own runtime may not take the file: it has no {dtype}, which are {some_names(values)}{hint}"
        )
    rounded = [v for g in model.graph.walk() for node in g if node.op == "RoundTo" for v in node.outputs]
    if rounded:
        texts.append(
            f"MNN's own runtime keeps the bits and the range of f32 where f16 has fewer: {some_names(rounded)}"
        )
    model.notices += [text for text in texts if text not in model.notices]


def _is_native(node: Node) -> bool:
    """Only what the format's runtime has the floats of can have a form of the format's own."""
    return all(v is None or v.type.dtype in NATIVE or not v.type.dtype.is_float for v in node.inputs)


def _run(
    model: Model,
    name: str,
    level: int,
    target: Target,
    keep: Callable[[str], bool],
    log: Trace,
    check: Check | None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    if name.endswith(":*"):
        selected = [r for r in topic(name[:-2]) if r.level <= level and r.target in (None, target) and keep(r.name)]
        apply_rules(model.graph, selected, log, _is_native if name == "legalize:*" else None)
    else:
        step = all_passes[name]
        # Those of level 0 always run, whatever was selected.
        if step.level > level or step.target not in (None, target) or not (keep(name) or step.level == 0):
            return
        apply_pass(step, model.graph, log, **options)
    if check is not None:
        check(name, model)


def topic(name: str) -> list[Rule]:
    """The rules of a group: its modules in order, the rules of each in the order of their definition."""
    places = {f"minnow.optimizer.passes.{module}": i for i, module in enumerate(GROUPS[name])}
    return sorted((r for r in rules.values() if r.module in places), key=lambda r: (places[r.module], r.line))


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
    if isinstance(item, Rule):
        in_pipeline, in_legalize = (
            any(line.endswith(":*") and item in topic(line[:-2]) for line, _ in lines) for lines in (PIPELINE, LEGALIZE)
        )
    else:
        in_pipeline, in_legalize = (any(line == name for line, _ in lines) for lines in (PIPELINE, LEGALIZE))
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
