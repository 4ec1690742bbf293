"""Every rule and pass on graphs that are nearly its own example: it leaves them alone, or keeps their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judgment import example, is_valid, judged, numbers_of, other_numbers
from mutations import KINDS, edited, extents_for
from random_graphs import model_of
from rewriting import ALL
from sampling import everyday, one_in

from minnow.optimizer import optimize
from minnow.optimizer.rewrite import Rule, rewrite, rules

# Where ops take none of the edits of a kind: of windows that must fit, rows that must be there, dimensions that are
# tied to one another. test_negative.py has cases for these, by hand.
_NOT_EDITED = {
    "attribute": {"erase_known_element", "fuse_rotary"},
    "constant": {"fuse_attention_cache", "gather_one"},
    "extent": {"move_attention"},
    "operand": {
        *(
            "legalize_conv_3d",
            "legalize_conv_transpose_3d",
            "legalize_deform_conv",
            "legalize_empty_sequence",
            "legalize_groups",
            "legalize_integer_scatter",
            "legalize_nearest_sample",
            "legalize_prelu",
        ),
    },
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_nearly_its_example(name: str) -> None:
    """Every kind of edit that there is must be tried: a new rule whose example takes none of a kind is to be listed."""
    for kind in KINDS:
        possible, valid, wrong = judged(name, kind, step=one_in(8))
        assert not wrong, f"{kind}: " + "\n".join(wrong[:3])
        if kind == "optional" or everyday:
            continue  # of what type such an operand is, only its op knows; and a sample may have no edit that fits
        assert (possible == 0 or valid > 0) is (name not in _NOT_EDITED.get(kind, ())), f"{valid} edits of kind {kind}"


def test_a_wrong_rule_is_found_by_its_own_example() -> None:
    """The edits are worth something: rules with one condition left out are found, whichever it is."""
    found = {}
    for rule in _CARELESS:
        ALL[rule.name] = rule
        try:
            found[rule.name] = {kind for kind in KINDS if judged(rule.name, kind)[2]}
        finally:
            del ALL[rule.name]
    assert {name: want <= found[name] for name, want in _FOUND_BY.items()} == dict.fromkeys(_FOUND_BY, True), found


def _careless() -> list[Rule]:
    @rewrite(lambda p, x: p.Mul(p.const("k"), p.Mul(x, p.const("l"))))
    def forget_to_multiply(b, m):
        """Looks at no number.

        Given:
            graph g(%x: f32[2,3]) {
              %a: f32[2,3] = Mul(%x, f32[](2.0))
              %y: f32[2,3] = Mul(%a, f32[](0.5))
              return %y
            }
        Result:
            not what it should be
        """
        return m.x

    @rewrite(lambda p, x: p.Transpose(p.Transpose(x)))
    def forget_the_order(b, m):
        """Takes any two transposes for inverse ones.

        Given:
            graph g(%x: f32[2,3,4]) {
              %a: f32[3,2,4] = Transpose(%x) {perm=(1, 0, 2)}
              %y: f32[2,3,4] = Transpose(%a) {perm=(1, 0, 2)}
              return %y
            }
        Result:
            not what it should be
        """
        return m.x

    @rewrite(lambda p, x, z: p.Sub(p.Add(x, z), p.any("w")))
    def forget_who_it_is(b, m):
        """Takes away what was added, whatever it is.

        Given:
            graph g(%x: f32[2,3], %z: f32[2,3]) {
              %a: f32[2,3] = Add(%x, %z)
              %y: f32[2,3] = Sub(%a, %z)
              return %y
            }
        Result:
            not what it should be
        """
        return m.x

    @rewrite(lambda p, x: p.ReduceSum(x), shared=True)
    def forget_the_symbol(b, m):
        """Is right for a single row.

        Given:
            graph g(%x: f32[1,3]) {
              %y: f32[1,3] = ReduceSum(%x) {axes=(0,)}
              return %y
            }
        Result:
            not what it should be
        """
        shape = m.x.type.shape
        return m.x if m.root.attrs.get("axes") == (0,) and shape and shape[0] in (1, "M") else m.no("several rows")

    made = [forget_to_multiply, forget_the_order, forget_who_it_is, forget_the_symbol]
    for rule in made:
        del rules[rule.name]
    return made


_CARELESS = _careless()
_FOUND_BY = {
    "forget_to_multiply": {"constant"},
    "forget_the_order": {"attribute"},
    "forget_who_it_is": {"operand"},
    "forget_the_symbol": {"symbol"},
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["mnn", "minnow"])
@pytest.mark.parametrize("name", sorted(ALL))
def test_the_whole_pipeline_on_what_is_nearly_an_example(name: str, target: Any) -> None:
    """Rules meet what others leave of them."""
    graph = example(name)
    for kind, edits in KINDS.items():
        for edit in list(edits(graph))[::12]:
            if "unknown rank" in edit.what:
                continue  # some ops refuse scalars, and some references do not
            before = edited(graph, edit)
            like = edit.like or before
            if before is None or like is None or not is_valid(before) or not any(
                numbers_of(name, before, symbols, 0, like) for symbols in extents_for(like)
            ):  # fmt: skip
                continue
            model = model_of(before.clone())
            with np.errstate(all="ignore"):
                optimize(model, 3, target=target)
                assert not (text := other_numbers(name, before, model.graph, edit)), f"{kind}: {text}"
