"""Every contrib operator is read with the attributes and operands that onnxruntime gives it, or refused by name."""

from __future__ import annotations

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as ort
import pytest
from onnx_contrib import CONTRIB

from minnow.converter.base import _HARMLESS
from minnow.converter.onnx import frontend

# What the mappings were written for: an older onnxruntime knows fewer operators, and fewer of their inputs.
pytest.importorskip("onnxruntime", minversion="1.32")

SCHEMAS = {f"{CONTRIB}::{s.name}": s for s in ort.get_all_operator_schema() if s.domain == CONTRIB}
MAPPED = sorted(name for name in frontend.mappings if name.startswith(f"{CONTRIB}::"))


def test_every_operator_is_read_or_refused_with_a_reason() -> None:
    assert len(MAPPED) > 60
    for name in SCHEMAS:
        refusal = frontend.refusal(name, 1)
        assert frontend.find(name, 1) is not None or (refusal is not None and refusal.why), name


def test_what_is_refused_exists_and_is_not_read() -> None:
    names = [n for n in frontend.refusals if n.startswith(f"{CONTRIB}::") and not n.endswith("*")]
    assert names
    assert set(names) <= set(SCHEMAS)
    assert not set(names) & set(MAPPED)


@pytest.mark.parametrize("name", [n for n in MAPPED if n in SCHEMAS])
def test_a_mapping_takes_what_the_operator_takes(name: str) -> None:
    schema, mapping = SCHEMAS[name], frontend.find(name, 1)
    assert mapping is not None
    assert not set(schema.attributes) - set(mapping.attrs) - _HARMLESS
    assert mapping.required <= schema.min_input
    assert mapping.variadic or len(mapping.parameters) >= len(schema.inputs)


@pytest.mark.parametrize("name", [n for n in MAPPED if n in SCHEMAS])
def test_a_mapping_has_the_defaults_of_the_operator(name: str) -> None:
    mapping = frontend.find(name, 1)
    assert mapping is not None
    for attribute, description in SCHEMAS[name].attributes.items():
        written = onnx.AttributeProto.FromString(description._default_value)
        if not written.type or attribute in _HARMLESS:
            continue
        want = onnx.helper.get_attribute_value(written)
        want = want.decode() if isinstance(want, bytes) else want
        if name.endswith("::GridSample") and want == "bilinear":
            want = "linear"  # another name of that mode
        assert mapping.attrs[attribute] == pytest.approx(want), attribute


def test_mappings_without_a_schema_are_few() -> None:
    # The norm is an operator of ONNX's own, which old files have in this domain.
    assert set(MAPPED) - set(SCHEMAS) == {f"{CONTRIB}::LayerNormalization", f"{CONTRIB}::SimplifiedLayerNormalization"}
