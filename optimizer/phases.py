"""The four phases of the pipeline: which passes and rules run, in which order, with the reason for each place.

A step is a pass, or groups of rules that run together until none of them applies any more: "shape:* logic:*". A group
looks at a node only while those before it have nothing left to do, and all groups look again at what a rewrite has
changed. Which modules a group is made of, and in which order their rules are tried, is in `GROUPS`; the names of files
and the order of imports do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from minnow.optimizer.facts.format import Target
from minnow.optimizer.rewrite import Rule, rules


@dataclass(frozen=True)
class Step:
    """A line of a phase.

    Attributes:
        name: of a pass, or of groups of rules, each with ":*" behind it.
        why: why it stands here.
        target: the only target that it is for; None: every one. A file for that target cannot do without it: it runs at
            every level and whatever was selected, and only what was left out by name stays out.
    """

    name: str
    why: str
    target: Target | None = None

    @property
    def groups(self) -> list[list[Rule]]:
        """The rules of its groups, in the order in which those of one root op are tried; none for a pass."""
        return [rules_of(group[:-2]) for group in self.name.split() if group.endswith(":*")]


@dataclass(frozen=True)
class Phase:
    """Steps with one aim.

    Attributes:
        name: of the phase.
        aim: what holds when it is over.
        steps: in order.
    """

    name: str
    aim: str
    steps: tuple[Step, ...]


GROUPS: dict[str, tuple[str, ...]] = {
    "qdq": ("quantize.qdq", "quantize.window", "quantize.heads"),
    "identity": ("cleanup.identity",),
    "sequence": ("control.sequence",),
    "shape": ("shape.constant", "shape.place", "shape.vector"),
    "logic": ("logic.known", "logic.form"),
    "rotary": ("attention.rotary",),
    "movement": (
        "movement.cancel",
        "movement.blocks",
        "movement.dilation",
        "movement.pad",
        "movement.resize",
        "movement.slice",
        "movement.transpose",
        "movement.view",
    ),
    "ones": ("movement.ones",),
    "activation": ("activation.basic", "activation.mask", "activation.exponential", "activation.swish"),
    "mean": ("reduction.mean",),
    "norm": ("norm.layer", "norm.channel", "norm.softmax"),
    "reduction": ("reduction.spelled",),
    "arithmetic": ("arithmetic.constant",),
    "matmul": ("matmul.linear", "matmul.chain", "matmul.flat", "matmul.form", "matmul.gate"),
    "attention": ("attention.spelled", "attention.join"),
    "convolution": ("convolution.absorb", "convolution.chain", "convolution.group", "convolution.input"),
    "quantized": ("quantize.layer",),
    "wide": ("quantize.wide",),
    "tiles": ("movement.tiles",),
    "pooled": ("reduction.pooled",),
    "epilogue": ("fusion.epilogue",),
    "legalize": (
        "legalize.after",
        "legalize.deform",
        "legalize.dilation",
        "legalize.exact",
        "legalize.index",
        "legalize.math",
        "legalize.neural",
        "legalize.operand",
        "legalize.recurrent",
        "legalize.resize",
        "legalize.shape",
        "legalize.spectral",
        "legalize.volume",
    ),
}
"""Modules of `passes/`, by group. Within a module, rules are tried in the order of their definition."""

# A pass walks over the whole graph and cannot take part in a fixpoint of rules: it has a step of its own, and rules
# that it makes work for are listed again behind it.

_CANONICALIZE = (
    Step("inline_fused", "rules know the single nodes that an earlier run has fused, and so do other runtimes"),
    Step("qdq:*", "quantized layers: before constants are folded, which would make floats of their integers"),
    Step("fold_constants", "shapes, axes and conditions must be numbers before rules look at them"),
    Step("decide_branches", "the conditions that are left depend on the inputs, or only seem to"),
    Step("name_dimensions", "dimensions that are computed alike get the same name, by which rules compare them"),
    Step("identity:*", "a node that does nothing must not stand between the parts of a pattern"),
    Step("fuse_recurrent_loops", "a layer must be one node before rules change what stands in its loop"),
    Step("fuse_other_recurrent_loops", "the functions that all runtimes have are tried first, by the step before"),
    Step("prune_loop", "dead loop state would be written out with every iteration that is unrolled"),
    Step("unroll_loop", "rules see the nodes of a few iterations together"),
    Step("hoist_invariants", "of loops that are left; not before layers are found, which read their weights inside"),
    Step("hoist_common", "of branches that are left: rules do not look into a branch from outside"),
    Step("choose_results", "after that, little may be left in both branches, which are then computed and chosen from"),
    Step("sequence:* shape:*", "the shapes of masks and indices must be numbers before the next pass looks at them"),
    Step("eliminate_repetition", "masks and indices are small before anything is computed with them"),
    Step("logic:*", "the results of comparisons, of which branches and choices are made, follow from shapes"),
    Step("eliminate_dead", "shapes that are unused by now must not count as readers of what they were taken of"),
    Step("eliminate_common", "patterns want one value where the source computes the same twice"),
    Step(
        "rotary:* movement:*",
        "rotary positions while their halves are cut as in the source; then transposes and reshapes cancel",
    ),
    Step("sink_transposes", "pairs of transposes with something between them, after those without"),
    Step(
        "ones:* rotary:* movement:*",
        "a transpose of axes of size 1 becomes a reshape only once it is known that no inverse meets it; that and the "
        "step before bring others together",
    ),
    Step("eliminate_common", "constants that were transposed for each of their readers"),
)

_RECOGNIZE = (
    Step(
        "activation:* mean:* norm:* reduction:* arithmetic:* matmul:* attention:* shape:*",
        "norms are made of means and look like activations with their roots and divisions, so they come after both; "
        "sums and divisions are changed only after norms; attention is made of matrix products in their final form",
    ),
    Step("fuse_attention_cache", "the cache of keys and values is seen beside attention that is one node"),
)

_FUSE = (
    Step("qdq:*", "the quantized layers that other nodes stood between; before activations go into layers"),
    Step("fold_constants", "the tables that take the place of functions"),
    Step(
        "convolution:* quantized:* tiles:* pooled:* identity:*",
        "convolutions take in padding, scale, bias and activation; the groups behind them change the form of slices "
        "and of pooling, by which the rules before know them; what a folded scale leaves does nothing",
    ),
    Step(
        "epilogue:*",
        "residuals and activations go into final layers: rules before it look for these nodes beside layers",
    ),
    Step("eliminate_common", "what the rules have made alike"),
    Step("wide:*", "after the rules for layers of integers, which know what these mean by its own node"),
    Step("fuse_elementwise", "takes whatever no rule has made use of"),
)

_OfFile = partial(Step, target="mnn")

_FINISH = (
    Step("eliminate_dead", "what the rules have left over"),
    _OfFile("narrow_types", "first: whether the format has a form for an op depends on types"),
    _OfFile("legalize:*", "ops that the format has no form for become ops that it has"),
    _OfFile("fold_constants", "the decompositions compute with constants"),
    _OfFile("identity:* ones:*", "they leave casts that do nothing, and views around layers with one spatial axis"),
    _OfFile("movement:* convolution:*", "such views cancel between layers, which take in what stood behind them"),
    _OfFile("eliminate_common", "decompositions repeat themselves"),
    _OfFile("eliminate_dead", "no unused node goes into the file"),
    _OfFile("split_products", "when all products of integers are there that will be"),
    _OfFile("lower_bools", "after the last folding, which would make constants of them again"),
    _OfFile("assign_layout", "last: every node needs its layout, and no node may come after"),
)

PHASES: tuple[Phase, ...] = (
    Phase(
        "canonicalize",
        "known values are constants, and equivalent expressions have one form",
        _CANONICALIZE,
    ),
    Phase("recognize", "each operation that the source writes as many nodes is one node", _RECOGNIZE),
    Phase("fuse", "layers include the operations around them", _FUSE),
    Phase("finish", "no node is unused, and a file for every runtime of the format holds only what they know", _FINISH),
)


def steps() -> Iterator[Step]:
    """The steps of all phases."""
    for phase in PHASES:
        yield from phase.steps


def rules_of(group: str) -> list[Rule]:
    """The rules of a group, in the order in which those of one root op are tried."""
    places = {f"minnow.optimizer.passes.{module}": i for i, module in enumerate(GROUPS[group])}
    found = (rule for rule in rules.values() if rule.module in places)
    return sorted(found, key=lambda rule: (places[rule.module], rule.line))
