"""Every operator of the ONNX standard at every opset: read with its own attributes and defaults, or refused by name."""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper

from minnow.converter import read
from minnow.converter.base import _HARMLESS
from minnow.converter.onnx import frontend
from minnow.converter.onnx.function import Library
from minnow.converter.onnx.reader import OLDEST_OPSET
from minnow.converter.onnx.translator import qualified
from minnow.schema.errors import UnsupportedError
from minnow.schema.registry.interpreter import evaluate

NEWEST = defs.onnx_opset_version()
SCHEMAS = sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))


def name_of(schema) -> str:
    return f"{schema.domain}::{schema.name}" if schema.domain else schema.name


def call_of(schema) -> onnx.NodeProto:
    return helper.make_node(schema.name, ["x"] * schema.min_input, ["y"], domain=schema.domain)


MAPPED = [
    (schema, mapping)
    for schema in SCHEMAS
    if (mapping := frontend.find(name_of(schema), schema.since_version)) is not None
]


@pytest.mark.parametrize("opset", range(OLDEST_OPSET, NEWEST + 1))
def test_every_operator_is_read_or_refused_with_a_reason(opset):
    neither = []
    for schema in {name_of(s): s for s in SCHEMAS}.values():
        version = opset if not schema.domain else schema.since_version
        if not schema.domain and not defs.has(schema.name, version):
            continue
        read_ = frontend.find(name_of(schema), version) is not None
        read_ = read_ or Library.has_standard(call_of(schema), {schema.domain: version})
        refusal = frontend.refusal(name_of(schema), version)
        if not read_ and (refusal is None or not refusal.why):
            neither.append(name_of(schema))
    assert not neither


def test_what_is_refused_exists_and_is_not_read():
    known = {name_of(s) for s in SCHEMAS}
    for name, refusals in frontend.refusals.items():
        theirs = name.startswith("com.microsoft::")  # see test_onnx_contrib_schemas.py
        assert name in known or theirs or name.endswith("::*"), f"there is no {name}"
        for refusal in refusals:
            assert frontend.find(name, refusal.since) is None, f"{name} is read, and refused as well"


def test_a_mapping_takes_what_the_operator_takes():
    assert len(MAPPED) > 500
    for schema, mapping in MAPPED:
        which = f"{name_of(schema)}-{schema.since_version}"
        assert not set(schema.attributes) - set(mapping.attrs) - _HARMLESS, which
        assert mapping.required <= schema.min_input, which
        assert mapping.variadic or len(mapping.parameters) >= len(schema.inputs), which


# Defaults that mean the same though they are written differently, or that the standard misspells.
SAME_DEFAULT = {
    ("GRU", 1, "direction"): "forward",  # "foward"
    ("GridSample", 16, "mode"): "linear",  # "bilinear"
    **{("RNN", v, "activations"): () for v in (1, 7, 14, 22)},  # Tanh is every direction's own default
}


def test_a_mapping_has_the_defaults_of_the_operator():
    for schema, mapping in MAPPED:
        for name, attribute in schema.attributes.items():
            if not attribute.default_value.name or name not in mapping.attrs:
                continue
            which = f"{name} of {name_of(schema)}-{schema.since_version}"
            default = mapping.attrs[name]
            assert default is not inspect.Parameter.empty, which
            want = helper.get_attribute_value(attribute.default_value)
            want = want.decode() if isinstance(want, bytes) else tuple(want) if isinstance(want, list) else want
            want = SAME_DEFAULT.get((schema.name, schema.since_version, name), want)
            if isinstance(want, float):
                assert np.float32(default) == pytest.approx(np.float32(want), rel=1e-6), which
            else:
                assert default == want, which


@pytest.mark.parametrize("op", ["ImageDecoder", "ai.onnx.ml::TreeEnsemble", "ai.onnx.preview.training::Adam"])
def test_a_refusal_is_told_with_its_reason_and_what_to_do(tmp_path, op):
    domain, _, name = op.rpartition("::")
    graph = helper.make_graph(
        [helper.make_node(name, ["x"], ["y"], name="node", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
    )
    version = NEWEST if not domain else defs.get_schema(name, domain=domain).since_version
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)]), str(tmp_path / "m.onnx"))
    with pytest.raises(UnsupportedError) as e:
        read(tmp_path / "m.onnx")
    refusal = frontend.refusal(op, version)
    (item,) = e.value.items
    for part in (op, refusal.why, refusal.hint, "node"):
        assert part in item


# ---- opset 1 to 6, against what onnx's own version converter makes of them for onnxruntime

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 7)).astype(np.float32)
POSITIVE = np.abs(X) + 0.5


def row(*shape):
    return (RNG.standard_normal(shape) + 3).astype(np.float32)


# Where the second operand stands in the first one, before dimensions lined up from the back.
ALIGNED = [(row(3), {"axis": 1}, (3, 1, 1)), (row(5, 7), {}, (5, 7)), (row(3, 5), {"axis": 1}, (3, 5, 1)),
           (row(2), {"axis": 0}, (2, 1, 1, 1)), (row(5), {"axis": -2}, (5, 1))]  # fmt: skip
SLOPES = row(3)

OLD = {
    "Add-equal": (6, "Add", [X, X], {}),
    "Pow": (6, "Pow", [POSITIVE, row(7)], {"broadcast": 1}),
    "Gemm": (6, "Gemm", [row(3, 4), row(5, 4), row(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0, "broadcast": 1}),
    "PRelu-one": (6, "PRelu", [X, row(1)], {}),
    "Dropout": (6, "Dropout", [X], {"is_test": 1, "ratio": 0.3}),
    "BatchNormalization": (6, "BatchNormalization", [X, row(3), row(3), row(3), row(3)], {"is_test": 1}),
    "Selu-6": (6, "Selu", [X], {}),
    "Clip": (6, "Clip", [X], {"min": -0.3, "max": 0.4}),
    "Sum": (6, "Sum", [X, X, X], {}),
    "Pad": (2, "Pad", [X], {"pads": [0, 0, 1, 2, 0, 1, 0, 3], "value": 0.5}),
    "Softmax": (6, "Softmax", [X], {"axis": 2}),
}


@pytest.mark.parametrize("case", OLD)
def test_old_opsets_give_what_the_version_converter_and_onnxruntime_give(tmp_path, case):
    opset, op, arrays, attrs = OLD[case]
    got = read_and_run(tmp_path / "m.onnx", opset, op, arrays, attrs)
    want = newer(tmp_path / "m.onnx", arrays)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "function"), [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply),
                                              ("Div", np.divide), ("Pow", np.power)])  # fmt: skip
@pytest.mark.parametrize(("y", "attrs", "shape"), ALIGNED)
def test_old_operands_line_up_from_an_axis(tmp_path, op, function, y, attrs, shape):
    got = read_and_run(tmp_path / "m.onnx", 6, op, [POSITIVE, y], {"broadcast": 1, **attrs})
    np.testing.assert_allclose(got, function(POSITIVE, y.reshape(shape)), rtol=1e-5)


# What the version converter cannot bring up, or gets wrong.
BY_HAND = {
    "Selu": (1, [X], {}, lambda: np.where(X > 0, 1.0507 * X, 1.0507 * 1.6732 * np.expm1(X)).astype(np.float32)),
    "Concat": (3, [X, X], {}, lambda: np.concatenate([X, X], axis=1)),
    "Cast": (5, [X], {"to": "INT32"}, lambda: X.astype(np.int32)),
    "Reshape": (4, [X], {"shape": [0, -1, 7]}, lambda: X.reshape(2, 15, 7)),
    "PRelu": (6, [X, SLOPES], {}, lambda: np.where(X < 0, X * SLOPES.reshape(3, 1, 1), X)),
    "Upsample": (1, [X], {"height_scale": 2.0, "width_scale": 3.0}, lambda: X.repeat(2, axis=2).repeat(3, axis=3)),
    "Split": (1, [X], {"axis": 3, "split": [2, 5]}, lambda: X[..., :2]),
    "MeanVarianceNormalization": (
        1,
        [X],
        {},
        lambda: (X - X.mean((2, 3), keepdims=True)) / X.std((2, 3), keepdims=True),
    ),
}


@pytest.mark.parametrize("op", BY_HAND)
def test_old_opsets_mean_what_their_text_says(tmp_path, op):
    opset, arrays, attrs, want = BY_HAND[op]
    got = read_and_run(tmp_path / "m.onnx", opset, op, arrays, attrs)
    assert got.dtype == want().dtype
    np.testing.assert_allclose(got, want(), rtol=1e-5, atol=1e-6)


def read_and_run(path: Path, opset, op, arrays, attrs):
    names = [f"x{i}" for i in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y", "z"] if op == "Split" else ["y"], **attrs)],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, arrays, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.INT32 if op == "Cast" else TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3), str(path))
    (got,) = evaluate(read(path).graph, arrays)
    return got


def newer(path: Path, arrays):
    model = onnx.version_converter.convert_version(onnx.shape_inference.infer_shapes(onnx.load(str(path))), 12)
    model.ir_version = 7
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})[0]


def test_statistics_of_every_element(tmp_path):
    stats = [np.abs(row(3, 5, 7)) for _ in range(4)]
    got = read_and_run(tmp_path / "m.onnx", 6, "BatchNormalization", [X, *stats], {"is_test": 1, "spatial": 0})
    scale, bias, mean, var = stats
    np.testing.assert_allclose(got, (X - mean) / np.sqrt(var + 1e-5) * scale + bias, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["BatchNormalization", "Dropout"])
def test_old_training_mode_is_refused(tmp_path, op):
    arrays = [X, row(3), row(3), row(3), row(3)] if op == "BatchNormalization" else [X]
    with pytest.raises(UnsupportedError, match="training mode"):
        read_and_run(tmp_path / "m.onnx", 6, op, arrays, {})


def test_tile_along_one_axis(tmp_path):
    initializers = [onnx.numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("tiles", 3), ("axis", 1))]
    graph = helper.make_graph(
        [helper.make_node("Tile", ["x", "tiles", "axis"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializers,
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)], ir_version=4), str(path))
    np.testing.assert_array_equal(evaluate(read(path).graph, [X])[0], np.tile(X, (1, 3, 1, 1)))


def test_names_of_the_default_domain_are_equal():
    assert qualified(helper.make_node("Add", [], [], domain="ai.onnx")) == qualified(helper.make_node("Add", [], []))


# ---- opset 7 and later: the cases of ONNX's own tests, taken back to every older opset, against onnxruntime


def dated(case, opset: int) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = 8
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", opset))
    return model


def older_opsets(case) -> list[int]:
    """The last opset of every older version of the operator that knows the attributes and operands of the case."""
    (node,) = case.model.graph.node
    history = sorted({s.since_version: s for s in SCHEMAS if (s.domain, s.name) == ("", node.op_type)}.items())
    found = []
    for (_, schema), (newer_since, _) in itertools.pairwise(history):
        fits = {a.name for a in node.attribute} <= set(schema.attributes)
        fits = fits and schema.min_input <= len(node.input) <= schema.max_input
        if fits and newer_since > 7 and newer_since <= case.model.opset_import[0].version:
            found.append(newer_since - 1)
    return found


@functools.cache
def cases_by_operator() -> dict[str, list]:
    """A few cases per operator, of tensors that numpy knows, without those whose numbers are drawn at random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found: dict[str, list] = {}
        for case in collect_testcases(None):
            graph = case.model.graph
            arrays = [*case.data_sets[0][0], *case.data_sets[0][1]]
            plain = all(isinstance(a, np.ndarray) and a.dtype.kind in "fiub" for a in arrays)
            plain = plain and all(i.type.HasField("tensor_type") for i in [*graph.input, *graph.output])
            if plain and len(graph.node) == 1 and not graph.node[0].domain and "_expanded" not in case.name:
                found.setdefault(graph.node[0].op_type, []).append(case)
    return {op: cases[:4] for op, cases in found.items() if op not in ("Bernoulli", "Dropout")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(8))
def test_older_versions_mean_what_onnxruntime_makes_of_them(tmp_path, share):
    judged = 0
    for case in itertools.chain(*list(cases_by_operator().values())[share::8]):
        for opset in older_opsets(case):
            model = dated(case, opset)
            inputs = dict(zip([i.name for i in model.graph.input], case.data_sets[0][0], strict=True))
            try:
                session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
                want = session.run(None, inputs)
            except Exception:  # noqa: BLE001  (its types are its own; it has not every version and element type)
                continue
            onnx.save(model, str(tmp_path / "m.onnx"))
            got = evaluate(read(tmp_path / "m.onnx").graph, list(inputs.values()))
            for g, w in zip(got, want, strict=True):
                where = f"{case.name} at opset {opset}"
                assert g.dtype == w.dtype, where
                # Sums are taken in another order, which the Fourier transforms feel most.
                np.testing.assert_allclose(g, w, rtol=1e-3, atol=2e-4, err_msg=where)
            judged += 1
    assert judged > 30
