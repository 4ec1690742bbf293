"""Random tables of every type: through our own writer and reader, and through flatc's JSON both ways."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minnow.schema.mnn import wire
from minnow.schema.mnn.fbs import SCALARS, Field, schema

SCHEMA = Path(__file__).parents[3] / "schema" / "mnn" / "mnn.fbs"
MEMBERS = list(wire.unions["OpParameter"])[1:]


def numbers(name: str, finite: bool):
    if name == "bool":
        return st.booleans()
    if name.startswith("float"):
        # flatc prints six decimals, so only short fractions survive its JSON.
        return st.integers(-4000, 4000).map(lambda n: n / 4) if finite else st.floats(width=8 * SCALARS[name].size)
    limits = np.iinfo(np.dtype(SCALARS[name].dtype))
    return st.integers(int(limits.min), int(limits.max))


def values(field: Field, depth: int, plain: bool):
    """Values of a field; `plain` ones are those which JSON can say: finite numbers and clean text."""
    if field.kind == "enum":
        named = st.sampled_from(list(wire.enums[field.type]))
        single = named if plain else named | numbers(field.scalar.name, True)
    elif field.kind == "scalar":
        single = numbers(field.type, plain)
    elif field.kind == "string":
        raw = st.binary(max_size=9).map(lambda data: data.decode("utf-8", "surrogateescape"))
        single = st.text(max_size=9) if plain else st.text(max_size=9) | raw
    else:
        single = tables(field.type, depth - 1, plain)
    if not field.vector:
        return single
    several = st.lists(single, max_size=4)
    if plain and field.type == "Attribute":
        # flatc sorts by key what has a key.
        return several.map(lambda rows: sorted({row["key"]: row for row in rows}.values(), key=by_key))
    if field.kind != "scalar":
        return several
    return several | several.map(lambda items: np.array(items, bool if field.type == "bool" else field.scalar.dtype))


def by_key(row: dict) -> bytes:
    return row["key"].encode()


@st.composite
def tables(draw, name: str, depth: int = 3, plain: bool = False):
    table = {}
    for field in wire.tables[name].fields.values():
        reachable = field.kind not in ("table", "tag") or depth > 0
        if field.kind == "union" or not (field.required or (reachable and draw(st.booleans()))):
            continue
        if field.kind == "tag":
            member = table[field.name] = draw(st.sampled_from(MEMBERS))
            table[field.name.removesuffix("_type")] = draw(tables(member, depth - 1, plain))
        else:
            table[field.name] = draw(values(field, depth, plain))
    return table


def agree(name: str, given: dict, read: dict):
    """Asserts that what was read is what was given, less the defaults."""
    for field in wire.tables[name].fields.values():
        mine, yours = given.get(field.name), read.get(field.name)
        if mine is None:
            assert yours is None
        elif field.vector and field.kind == "scalar":
            dtype = bool if field.type == "bool" else field.scalar.dtype
            np.testing.assert_array_equal(np.asarray(mine, dtype), yours)
        elif field.vector:
            assert len(mine) == len(yours)
            for old, new in zip(mine, yours, strict=True):
                same(field, old, new)
        elif field.kind == "union":
            agree(given[f"{field.name}_type"], mine, yours)
        else:
            same(field, mine, field.default if yours is None and field.inline else yours)


def same(field: Field, mine, yours):
    if field.kind == "table":
        agree(field.type, mine, yours)
    elif field.kind == "enum":
        names = schema().names[field.type]
        assert names.get(mine, mine) == yours
    elif isinstance(mine, float):
        np.testing.assert_array_equal([mine, np.signbit(mine)], [yours, np.signbit(yours)])
    else:
        assert mine == yours
        assert type(mine) is type(yours)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", wire.tables)
def test_every_table_survives(name):
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(tables(name))
    def check(table):
        data = wire.write_nested(name, table)
        back = wire.read_nested(name, data)
        agree(name, table, back)
        assert wire.write_nested(name, back) == data

    check()


def flatc(*arguments):
    subprocess.run(["flatc", *map(str, arguments)], check=True, capture_output=True)


@pytest.mark.sampled(2)
@pytest.mark.skipif(not shutil.which("flatc"), reason="flatc is not installed")
@pytest.mark.parametrize("first", range(0, len(MEMBERS), 8))
def test_flatc_reads_and_writes_the_same(first, tmp_path):
    """flatc turns our bytes into JSON that says what we wrote, and what flatc makes from that JSON we read."""
    mains = [st.fixed_dictionaries({"main_type": st.just(name), "main": tables(name, plain=True)}) for name in
             MEMBERS[first : first + 8]]  # fmt: skip
    nets = tables("Net", 2, plain=True)

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(nets, st.tuples(*mains))
    def check(net, ops):
        net = net | {"oplists": list(ops)}
        (tmp_path / "ours.bin").write_bytes(wire.write(net))
        flatc("--json", "--strict-json", "--raw-binary", "-o", tmp_path, SCHEMA, "--", tmp_path / "ours.bin")
        text = (tmp_path / "ours.json").read_text(encoding="utf-8")
        agree("Net", net, json.loads(text))
        (tmp_path / "theirs.json").write_text(text, encoding="utf-8")
        flatc("--binary", "-o", tmp_path, SCHEMA, tmp_path / "theirs.json")
        agree("Net", net, wire.read((tmp_path / "theirs.bin").read_bytes()))

    check()
