"""`mnn.fbs` against the recorded facts of the format: every table, slot, type, default, enum and union member."""

import json
import shutil
import subprocess
from pathlib import Path
from struct import Struct

import numpy as np
import pytest

from minnow.schema.errors import InternalError
from minnow.schema.mnn import wire
from minnow.schema.mnn.fbs import Field, parse, schema

ROOT = Path(__file__).parents[3]
FACTS = ROOT / ".." / "shared" / "facts" / "wire.json"

needs_facts = pytest.mark.skipif(not FACTS.exists(), reason="the facts are not part of the repository")


def load():
    return json.loads(FACTS.read_text())


def as_facts(field: Field) -> dict:
    """A field of ours in the words of the facts."""
    kind, name, size = field.kind, field.type, field.scalar.size
    element = {
        "scalar": {"kind": "scalar", "type": name, "size": size},
        "enum": {"kind": "enum", "enum": name, "type": field.scalar.name, "size": size},
        "string": {"kind": "string"},
        "table": {"kind": "table", "table": name},
        "tag": {"kind": "scalar", "type": "uint8", "size": 1, "union_tag_of": name, "default": 0},
        "union": {"kind": "union", "union": name},
    }[kind]
    fact = {"slot": field.slot, "vt_offset": 4 + 2 * field.slot, "name": field.name}
    if field.vector:
        return fact | {"kind": "vector", "element": element}
    if kind == "enum":
        element["default"] = wire.enums[name][field.default]
    elif kind == "scalar":
        element["default"] = field.default
    if field.required:
        element["attribute"] = "key"
    return fact | element


def rounded(fact: dict) -> dict:
    """The facts give a float's default in decimal; the file has it as float32."""
    if fact.get("type") == "float32" and fact["kind"] == "scalar":
        single = Struct("<f")
        return fact | {"default": single.unpack(single.pack(fact["default"]))[0]}
    return fact


@needs_facts
def test_tables_slots_types_and_defaults_are_the_facts():
    facts = load()["tables"]
    ours = {name: [as_facts(field) for field in table.fields.values()] for name, table in wire.tables.items()}
    # Minnow's own field has a slot far behind those that there are, where other readers do not look.
    own = ours["ExtraInfo"].pop()
    assert (own["name"], own["table"]) == ("minnow", "SubGraphProto")
    assert own["slot"] > len(facts["ExtraInfo"]["fields"]) + 10
    assert ours == {name: [rounded(field) for field in table["fields"]] for name, table in facts.items()}
    assert sum(len(fields) for fields in ours.values()) > 500


@needs_facts
def test_enums_are_the_facts():
    facts = load()["enums"]
    assert wire.enums == {name: enum["values"] for name, enum in facts.items()}
    assert {name: schema().underlying[name].name for name in facts} == {
        name: enum["underlying"] for name, enum in facts.items()
    }


@needs_facts
def test_unions_and_root_are_the_facts():
    facts = load()
    assert wire.unions == {
        name: {member: int(code) for code, member in union["members"].items()}
        for name, union in facts["unions"].items()
    }
    assert schema().root == facts["root"]


def test_defaults_are_what_a_reader_fills_in():
    assert wire.default("Convolution2DCommon", "kernelX") == 1
    assert wire.default("Op", "defaultDimentionFormat") == "NHWC"
    assert wire.default("Pool", "ceilModel") is True
    assert wire.default("BatchNorm", "epsilon") == float(np.float32(0.001)) != 0.001
    assert wire.default("Op", "name") is None
    with pytest.raises(KeyError):
        wire.default("Op", "nme")


@pytest.mark.skipif(not shutil.which("flatc"), reason="flatc is not installed")
def test_flatc_finds_the_same_tables(tmp_path):
    """flatc's own view of the file: the JSON schema it makes has every table with its fields in order."""
    source = ROOT / "schema" / "mnn" / "mnn.fbs"
    subprocess.run(["flatc", "--jsonschema", "-o", tmp_path, source], check=True, capture_output=True)
    definitions = json.loads((tmp_path / "mnn.schema.json").read_text())["definitions"]
    fields = {
        name.removeprefix("minnow_wire_"): list(body.get("properties", {}))
        for name, body in definitions.items()
        if body.get("type") == "object"
    }
    unused = {name for name in fields["ExtraInfo"] if name.startswith("unused")}
    fields["ExtraInfo"] = [name for name in fields["ExtraInfo"] if name not in unused]
    assert fields == {name: list(table.fields) for name, table in wire.tables.items()}
    enums = {name.removeprefix("minnow_wire_"): body["enum"] for name, body in definitions.items() if "enum" in body}
    assert enums == {name: list(members) for name, members in (wire.enums | wire.unions).items()}


def test_the_parser_knows_the_language():
    small = parse(
        """
        // A comment.
        namespace a.b;
        enum Color : uint8 { Red = 1, Green, Blue = 7 }
        union Any { Leaf }
        table Tree { leaf: Leaf; any: Any; old: int8 (deprecated); color: Color = Green; e: float32 = -1.5e-3; }
        table Leaf { key: string (key); big: [int64]; yes: bool = true; }
        root_type Tree;
        """
    )
    assert small.root == "Tree"
    assert small.enums == {"Color": {"Red": 1, "Green": 2, "Blue": 7}}
    assert small.unions == {"Any": {"NONE": 0, "Leaf": 1}}
    slots = {field.name: (field.slot, field.kind, field.default) for field in small.tables["Tree"].fields.values()}
    assert slots["any_type"] == (1, "tag", None)
    assert slots["any"] == (2, "union", None)
    assert "old" not in slots
    assert slots["color"] == (4, "enum", "Green")
    assert slots["e"][2] == pytest.approx(-1.5e-3)
    leaf = small.tables["Leaf"].fields
    assert leaf["key"].required
    assert leaf["big"].vector
    assert leaf["big"].scalar.name == "int64"
    assert leaf["yes"].default is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("table T { a: int32 }", "expected ';'"),
        ("table T { a: Nowhere; } root_type T;", "'Nowhere' is not a type"),
        ("struct S {}", "cannot start with 'struct'"),
        ("table T {", "ends too early"),
        ("table T {} root_type U;", "'U' is not a table"),
        ("table T { a: string (id); } root_type T;", "the attribute 'id'"),
    ],
)
def test_the_parser_refuses_what_it_does_not_know(text, why):
    with pytest.raises(InternalError, match="schema cannot be parsed") as caught:
        parse(text)
    assert why in caught.value.why
