"""The driver and the pipeline: guard, explanations, selection, determinism, size."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from rewriting import assert_same_numbers, normal_form, read

from minnow.optimizer import optimize
from minnow.optimizer.phases import GROUPS, PHASES, rules_of, steps
from minnow.optimizer.rewrite import Rule, Trace, apply_rules, passes, rewrite, rules
from minnow.schema.errors import InternalError, UsageError
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.ops import Builder
from minnow.schema.registry.verify import verify

SILU = "graph g(%x: f32[4]) { %a: f32[4] = Sigmoid(%x) %y: f32[4] = Mul(%x, %a) return %y }"


def _model(graph: Graph) -> Model:
    return Model(
        graph,
        [(p.name or f"x{i}", p.type) for i, p in enumerate(graph.params)],
        [(f"y{i}", v.type) for i, v in enumerate(graph.outputs)],
    )


def test_every_step_names_something_and_every_rule_has_a_step() -> None:
    assert [phase.name for phase in PHASES] == ["canonicalize", "recognize", "fuse", "finish"]
    groups = {name[:-2] for step in steps() for name in step.name.split() if name.endswith(":*")}
    assert groups == set(GROUPS)
    in_groups = [r.name for group in GROUPS for r in rules_of(group)]
    assert len(in_groups) == len(set(in_groups))
    assert set(in_groups) == set(rules)
    assert {step.name for step in steps() if not step.groups} == set(passes)


def test_every_module_of_a_group_is_there_and_has_rules() -> None:
    modules = [f"minnow.optimizer.passes.{module}" for group in GROUPS.values() for module in group]
    assert len(modules) == len(set(modules))
    assert set(modules) == {rule.module for rule in rules.values()}


def _tried() -> dict[str, list[list[str]]]:
    """The rules of each group of each step, in the order in which those of one root op are tried."""
    return {step.name: [[rule.name for rule in group] for group in step.groups] for step in steps()}


def test_the_order_of_rules_is_that_of_the_groups_and_of_their_definition() -> None:
    for group, modules in GROUPS.items():
        places = [(modules.index(r.module.removeprefix("minnow.optimizer.passes.")), r.line) for r in rules_of(group)]
        assert places == sorted(places)
    both = replace(PHASES[0].steps[0], name="shape:* logic:*")
    assert both.groups == [rules_of("shape"), rules_of("logic")]
    other = replace(both, name="logic:* shape:*")
    assert other.groups == [rules_of("logic"), rules_of("shape")]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_in_which_modules_are_imported_does_not_matter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tried()
    shuffled = list(rules.items())
    Random(seed).shuffle(shuffled)
    for name, rule in shuffled:
        monkeypatch.delitem(rules, name)
        monkeypatch.setitem(rules, name, rule)
    assert list(rules) == [name for name, _ in shuffled]
    assert _tried() == before


@pytest.mark.parametrize("seed", range(3))
def test_the_names_of_files_do_not_matter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tried()
    modules = [module for group in GROUPS.values() for module in group]
    names = [f"file_{i:03}" for i in range(len(modules))]
    Random(seed).shuffle(names)
    renamed = dict(zip(modules, names, strict=True))
    for group, its in GROUPS.items():
        monkeypatch.setitem(GROUPS, group, tuple(renamed[module] for module in its))
    for rule in rules.values():
        bare = rule.module.removeprefix("minnow.optimizer.passes.")
        monkeypatch.setitem(rule.__dict__, "module", f"minnow.optimizer.passes.{renamed[bare]}")
    assert _tried() == before


@pytest.fixture
def quarrel() -> list[Rule]:
    """Two rules that undo each other."""

    @rewrite(lambda p, x: p.Sin(x))
    def split_sine(b, m):
        return b.Cos(m.x)

    @rewrite(lambda p, x: p.Cos(x))
    def fuse_sine(b, m):
        return b.Sin(m.x)

    made = [split_sine, fuse_sine]
    for rule in made:
        del rules[rule.name]
    return made


def test_rules_that_undo_each_other_are_named(quarrel: list[Rule]) -> None:
    graph = read("graph g(%x: f32[4]) { %y: f32[4] = Sin(%x) return %y }")
    with pytest.raises(InternalError, match="fuse_sine, split_sine undo each other"):
        apply_rules(graph, quarrel)


def test_bisection_stops_after_so_many_rewrites() -> None:
    lines = " ".join(f"%a{i}: f32[4] = Identity(%{'x' if i == 0 else f'a{i - 1}'})" for i in range(5))
    text = f"graph g(%x: f32[4]) {{ {lines} %y: f32[4] = Neg(%a4) return %y }}"
    for n in range(7):
        graph = read(text)
        log = Trace(stop_after=n)
        apply_rules(graph, [rules["eliminate_identity"]], log)
        assert len(graph) == 6 - min(n, 5)
        assert log.rewrites == min(n, 5)


def test_reasons_are_recorded_where_they_are_asked_for() -> None:
    text = "graph g(%x: f32[4], %z: f32[4]) { %a: f32[4] = Sigmoid(%x) %y: f32[4] = Mul(%a, %z) return %y }"
    log = Trace(explain=frozenset({"fuse_silu"}))
    optimize(_model(read(text)), 2, log=log)
    ((rule, node, reason),) = log.reasons
    assert (rule, node) == ("fuse_silu", "Mul y")
    assert reason == "'x' stands for two different values"
    elsewhere = Trace(explain=frozenset({"fuse_silu"}), node="other")
    optimize(_model(read(text)), 2, log=elsewhere)
    assert elsewhere.reasons == []


def test_a_value_that_others_read_is_the_reason() -> None:
    graph = read("graph g(%x: f32[4]) { %a: f32[4] = Sigmoid(%x) %y: f32[4] = Mul(%x, %a) return %y, %a }")
    log = Trace(explain=frozenset({"fuse_silu"}))
    assert apply_rules(graph, [rules["fuse_silu"]], log) == 0
    assert [why for _, _, why in log.reasons] == ["a value inside the pattern is also read by the graph's outputs"]


@pytest.mark.parametrize(
    ("level", "selection", "ops"),
    [
        (2, (), ["Silu"]),
        (1, (), ["Sigmoid", "Mul"]),
        (0, (), ["Sigmoid", "Mul"]),
        (2, ("-fuse_silu",), ["Sigmoid", "Mul"]),
        (2, ("fuse_silu",), ["Silu"]),
        (2, ("fuse_gelu",), ["Sigmoid", "Mul"]),
    ],
)
def test_levels_and_names_select_rules(level: int, selection: tuple[str, ...], ops: list[str]) -> None:
    model = _model(read(SILU))
    summary = optimize(model, level, passes=selection)
    assert [n.op for n in model.graph] == ops
    assert summary.before == {"Mul": 1, "Sigmoid": 1}
    assert summary.statistics.get("fuse_silu", {"hits": 0})["hits"] == (ops == ["Silu"])


@pytest.mark.parametrize("target", ["mnn", "minnow"])
def test_what_is_left_out_stays_out_of_every_step(target: Any) -> None:
    model = network()
    optimize(model, target=target, passes=["-fuse_conv_activation", "-fuse_activation"])
    assert [node.op for node in model.graph].count("Relu") == 2
    assert not any(node.attrs.get("activation") for node in model.graph)


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="there is no pass 'fuse_everything'"):
        optimize(_model(read(SILU)), passes=["-fuse_everything"])


def test_a_file_for_our_engine_keeps_what_others_do_not_know() -> None:
    text = "graph g(%x: f32[4,3]) { %y: f32[4,3] = Mish(%x) return %y }"
    counts = {}
    for target in ("mnn", "minnow"):
        model = _model(read(text))
        optimize(model, target=target)  # type: ignore[arg-type]
        assert_same_numbers(read(text), model.graph)
        counts[target] = [node.op for node in model.graph]
    assert counts["minnow"] == ["Mish"]
    assert len(counts["mnn"]) > 1
    assert "Mish" not in counts["mnn"]


def test_rules_for_one_target_stay_out_of_files_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rules["fuse_silu"]
    monkeypatch.setattr(rule, "target", "minnow")
    for target, nodes in (("minnow", 1), ("mnn", 2)):
        model = _model(read(SILU))
        optimize(model, target=target)  # type: ignore[arg-type]
        assert len(model.graph) == nodes


@pytest.mark.parametrize("wrong", [{"target": "ncnn"}, {"target": "minnow", "int64": "narrow"}])
def test_a_target_that_cannot_be_is_a_usage_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        optimize(_model(read(SILU)), **wrong)


def test_what_only_our_engine_runs_is_noticed_once() -> None:
    text = "graph g(%x: f32[4]) { %y: f32[4] = CumProd(%x, i64[](0)) %z: f32[4] = Exp(%y) return %z }"
    model = _model(read(text))
    optimize(model)
    optimize(model)
    assert model.notices == ["MNN's own runtime cannot run: CumProd"]
    plain = _model(read(SILU))
    optimize(plain)
    assert plain.notices == []


def test_new_nodes_say_where_they_come_from() -> None:
    graph = read(SILU.replace("Mul(%x, %a)", "Mul(%x, %a)  # onnx:/act/Mul\n"))
    apply_rules(graph, [rules["fuse_silu"]])
    assert [n.origin for n in graph] == ["onnx:/act/Mul > fuse_silu"]
    assert [v.name for v in graph.outputs] == ["y"]


def test_rules_reach_branches_and_bodies() -> None:
    text = f"""
    graph g(%c: bool[], %x: f32[4]) {{
      %y: f32[4] = If(%c, %x) {{then_branch={SILU.replace("graph g", "graph t")},
                               else_branch=graph e(%x: f32[4]) {{ %y: f32[4] = Neg(%x) return %y }}}}
      return %y
    }}"""
    graph = read(text)
    assert apply_rules(graph, [rules["fuse_silu"]]) == 1
    assert [n.op for g in graph.walk() for n in g] == ["If", "Silu", "Neg"]


def test_a_rule_that_would_change_a_type_does_nothing() -> None:
    @rewrite(lambda p, x: p.Floor(x), shared=True)
    def fuse_wrongly(b, m):
        return b.Cast(m.x, to=DType.I32)

    @rewrite(lambda p, x: p.Floor(x), shared=True)
    def fuse_badly(b, m):
        return b.Unsqueeze(m.x, axes=(0,))

    for rule in (fuse_wrongly, fuse_badly):
        del rules[rule.name]
        graph = read("graph g(%x: f32[4]) { %y: f32[4] = Floor(%x) return %y }")
        before = normal_form(graph)
        log = Trace(explain=frozenset({rule.name}))
        assert apply_rules(graph, [rule], log) == 0
        assert normal_form(graph) == before
        assert "it would turn" in log.reasons[0][2]
        verify(graph)


_SCRIPT = """
import hashlib, sys
sys.path.insert(0, {tests!r})
from test_pipeline import network
from minnow.optimizer import optimize
from minnow.schema.mnn import encode
model = network()
optimize(model, 2)
print(hashlib.sha256(encode(model)).hexdigest())
"""


def network() -> Model:
    """A network with branches, transposes, shapes and many equal nodes."""
    rng = np.random.default_rng(0)
    graph = Graph("main")
    x = graph.add_param(TensorType(DType.F32, ("N", 3, 8, 8)), "x")
    b = Builder(graph)
    ends = []
    for k in range(4):
        y = b.Conv(x, rng.standard_normal((4, 3, 3, 3)).astype(np.float32), strides=(1, 1), pads=(1, 1, 1, 1),
                   dilations=(1, 1))  # fmt: skip
        y = b.BatchNorm(y, *(np.abs(rng.standard_normal((4, 4))).astype(np.float32)))
        y = b.Mul(y, b.Sigmoid(y)) if k % 2 else b.Relu(y)
        ends.append(b.Transpose(y, perm=(0, 2, 3, 1)))
    y = b.Transpose(b.Concat(*ends, axis=3), perm=(0, 3, 1, 2))
    y = b.Add(y, b.ReduceMean(y, axes=(2, 3)))
    shape = b.Concat(b.Slice(b.Shape(y), np.array([0]), np.array([1])), np.array([-1]), axis=0)
    y = b.Reshape(y, shape)
    y = b.Add(b.MatMul(y, rng.standard_normal((16 * 64, 5)).astype(np.float32)), np.ones(5, np.float32))
    graph.outputs = [b.Softmax(y, axis=-1), b.Exp(y)]
    model = _model(graph)
    model.outputs = [("p", graph.outputs[0].type), ("e", graph.outputs[1].type)]
    return model


def test_the_network_keeps_its_numbers_and_loses_what_it_should() -> None:
    model = network()
    graph = model.graph.clone()
    optimize(model, 2)
    assert_same_numbers(graph, model.graph, tolerance=1e-4)
    ops = [n.op for n in model.graph]
    assert not {"Transpose", "BatchNorm", "Shape", "Slice", "MatMul", "Relu"} & set(ops)
    assert ops.count("ConvertLayout") == 2


def test_tied_weights_stay_one() -> None:
    graph = Graph("main")
    ids = graph.add_param(TensorType(DType.I32, (2, 3)), "ids")
    b = Builder(graph)
    table = b.const(np.random.default_rng(0).standard_normal((100, 64)).astype(np.float32), "table")
    x = b.Gather(table, b.Abs(ids))
    graph.outputs = [b.MatMul(x, b.Transpose(table, perm=(1, 0)))]
    before = graph.clone()
    model = _model(graph)
    optimize(model)
    big = [c for c in model.graph.constants() if (c.type.count or 0) > 1000]
    assert [c.type.shape for c in big] == [(100, 64)]
    assert "Linear" in [n.op for n in model.graph]
    assert_same_numbers(before, model.graph, tolerance=1e-5)


def test_hash_seeds_do_not_matter() -> None:
    tests = str(Path(__file__).parent)
    digests = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", _SCRIPT.format(tests=tests)], capture_output=True, text=True,
                              env=environment, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())


@pytest.mark.slow
def test_twenty_thousand_nodes_take_seconds() -> None:
    graph = Graph("main")
    y = x = graph.add_param(TensorType(DType.F32, (1, 4, 8, 8)), "x")
    b = Builder(graph)
    while len(graph) < 20_000:
        y = b.Identity(b.Add(b.Mul(y, b.Sigmoid(y)), x))
        if len(graph) % 400 == 0:
            y = b.LRN(y, size=3)
    graph.outputs = [y]
    model = _model(graph)
    begin = time.perf_counter()
    optimize(model, 2)
    seconds = time.perf_counter() - begin
    assert len(graph) < 11_000
    # Some 6 s where this was written; quadratic steps would take minutes.
    assert seconds < 60, f"{seconds:.1f} s"
