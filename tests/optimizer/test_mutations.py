"""Every rule and pass on graphs that are nearly its own example: it leaves them alone, or keeps their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mutations import KINDS, Edit, edited, extents_for, square
from random_graphs import model_of
from rewriting import ALL, apply, golden, inputs_for, read, run

from minnow.optimizer import optimize
from minnow.optimizer.rewrite import Rule, Trace, rewrite, rules
from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph
from minnow.schema.ops.op import NUMPY_REFUSALS
from minnow.schema.ops.verify import verify

_REFUSALS = (MinnowError, *NUMPY_REFUSALS)
_TOLERANCE = {DType.F64: 1e-10, DType.F16: 2e-2}

_CHANGE_TYPES = {"narrow_types", "lower_bools"}


def _example(name: str) -> Graph:
    texts = golden(ALL[name])
    assert texts is not None
    return read(texts[0])


def judged(name: str, kind: str) -> tuple[int, int, list[str]]:
    """How many edits of a kind there are, how many of them an op takes, and what went wrong."""
    graph = _example(name)
    possible = valid = 0
    wrong: list[str] = []
    for base in filter(None, (graph, square(graph))):
        for edit in KINDS[kind](base):
            possible += 1
            made = edited(base, edit)
            if made is None or not _is_valid(made):
                continue
            valid += 1
            if text := _fault(name, made, edit):
                wrong.append(text)
    return possible, valid, wrong


def _is_valid(graph: Graph) -> bool:
    try:
        verify(graph)
    except MinnowError:
        return False
    return True


def _fault(name: str, before: Graph, edit: Edit) -> str:
    after = before.clone()
    with np.errstate(all="ignore"):
        try:
            changes = apply(ALL[name], after, Trace(explain=frozenset({name})))
        except MinnowError as e:
            # What runs on no input is no graph that a rule could be asked about.
            runs = any(_numbers(name, before, symbols, 0) is not None for symbols in extents_for(before))
            return f"{edit.what}: {type(e).__name__}: {e}\n{before}" if runs else ""
        if not changes:
            return ""
        if name not in _CHANGE_TYPES and [v.type.dtype for v in after.outputs] != [
            v.type.dtype for v in before.outputs
        ]:
            return f"{edit.what}: other types of outputs\n{before}"
        return _other_numbers(name, before, after, edit)


def _numbers(name: str, graph: Graph, symbols: dict[str, int], seed: int) -> tuple[list[Any], list[Any]] | None:
    """Inputs and outputs; None where the numbers fit no op. What may have any rank has that of the rule's example."""
    own = _example(name).params
    types = [p.type if p.type.shape is not None else own[i].type for i, p in enumerate(graph.params)]
    try:
        arrays = inputs_for(types, seed, symbols)
        return arrays, run(graph, arrays)
    except (*_REFUSALS, KeyError, IndexError):
        return None


def _other_numbers(name: str, before: Graph, after: Graph, edit: Edit) -> str:
    tolerance = min((_TOLERANCE.get(v.type.dtype, 1e-5) for v in before.values() if v.type.dtype.is_float), default=0)
    tolerance = max([tolerance, *(_TOLERANCE[DType.F16] for v in before.values() if v.type.dtype is DType.F16)])
    for symbols in extents_for(before):
        for seed in range(2):
            if (numbers := _numbers(name, before, symbols, seed)) is None:
                continue
            arrays, want = numbers
            try:
                got = run(after, arrays)
            except _REFUSALS as e:
                return f"{edit.what}, {symbols}: {e}\nof {before}\nit makes {after}"
            for g, w in zip(got, want, strict=True):
                if g.shape != w.shape or not _are_close(g, w, tolerance):
                    return f"{edit.what}, {symbols}: {g.reshape(-1)[:5]}, not {w.reshape(-1)[:5]}"
    return ""


def _are_close(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    g, w = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.abs(w[np.isfinite(w)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    return bool(np.allclose(g, w, rtol=0, atol=tolerance * scale, equal_nan=True))


# Where ops take none of the edits of a kind: of windows that must fit, rows that must be there, extents that are tied
# to one another. test_negative.py has cases for these, by hand.
_NOT_EDITED = {
    "attribute": {"erase_known_element", "fuse_rotary"},
    "constant": {"fuse_attention_cache", "gather_one"},
    "extent": {"move_attention"},
    "operand": {
        *(
            "legalize_conv_3d",
            "legalize_conv_transpose_3d",
            "legalize_deform_conv",
            "legalize_groups",
            "legalize_prelu",
        ),
    },
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_nearly_its_example(name: str) -> None:
    """Every kind of edit that there is must be tried: a new rule whose example takes none of a kind is to be listed."""
    for kind in KINDS:
        possible, valid, wrong = judged(name, kind)
        assert not wrong, f"{kind}: " + "\n".join(wrong[:3])
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
    graph = _example(name)
    for kind, edits in KINDS.items():
        for edit in list(edits(graph))[::3]:
            before = edited(graph, edit)
            if before is None or not _is_valid(before) or not any(
                _numbers(name, before, symbols, 0) for symbols in extents_for(before)
            ):  # fmt: skip
                continue
            model = model_of(before.clone())
            with np.errstate(all="ignore"):
                optimize(model, 3, target=target)
                assert not (text := _other_numbers(name, before, model.graph, edit)), f"{kind}: {text}"
