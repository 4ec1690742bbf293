"""Answers of a given form, from logits that know nothing of it."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from vocabularies import NAMES, tokenizer_json

from minnow.llm.grammar import grammar_constraint, json_constraint
from minnow.llm.sampler import Sampler
from minnow.llm.tokenizer import Tokenizer
from minnow.options.sampler import SamplerOptions
from minnow.schema.errors import ModelError, UsageError

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8},
     "days": {"type": "integer", "minimum": 1, "maximum": 14}},
     "required": ["city", "days"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["a", "é", None, 3]}, "minItems": 1, "maxItems": 4},
    {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0, "maximum": 1}, {"const": "x\"y"}]},
    {"type": "object", "properties": {"next": {"$ref": "#/$defs/leaf"}}, "required": ["next"],
     "additionalProperties": False, "$defs": {"leaf": {"type": "string", "pattern": "^[A-C]{2,4}$"}}},
]  # fmt: skip
EOS = {"gpt-2": 50256, "llama-spm": 2}


@functools.cache
def tokenizer(name: str) -> Tokenizer:
    return Tokenizer.from_json(tokenizer_json(name), name)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: str(schema.get("type", "any")))
@pytest.mark.parametrize("name", [n for n in NAMES if n in EOS])
def test_answers_are_json_of_the_schema(name: str, schema: dict[str, Any], seed: int) -> None:
    known, eos = tokenizer(name), EOS[name]
    size = known.size + 13  # models have more logits than tokens
    sampler = Sampler(
        SamplerOptions(seed=seed, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
        constraint=json_constraint(schema, known, [eos], size),
    )
    rng, tokens = np.random.default_rng(seed), list[int]()
    while len(tokens) < 200 and not sampler.complete():
        tokens.append(sampler.sample(rng.normal(0, 2, size).astype(np.float32)))
        sampler.accept(tokens[-1])
    assert sampler.complete()
    text = known.decode([token for token in tokens if token != eos])
    jsonschema.validate(json.loads(text), schema)


def test_the_mask_is_exactly_what_may_come() -> None:
    known = tokenizer("gpt-2")
    grammar = json_constraint({"enum": ["yes", "no"]}, known, [50256], known.size)
    allowed = {known.token(int(id)) for id in np.flatnonzero(grammar.allowed())}
    assert allowed == {'"', '"y', '"yes', '"no', '"n', '"ye'} & set(known.vocabulary())
    for token in known.encode('"no"'):
        assert grammar.allowed()[token]
        grammar.accept(token)
    assert grammar.complete or np.flatnonzero(grammar.allowed()).tolist() == [50256]
    with pytest.raises(UsageError, match="does not fit"):
        json_constraint({"enum": ["yes"]}, known, [50256], known.size).accept(known.encode("no")[0])


def test_a_grammar() -> None:
    known = tokenizer("llama-spm")
    constraint = grammar_constraint('start: /[ab]{3}/ "!"', known, [2], known.size)
    sampler, tokens = Sampler(SamplerOptions(seed=1), constraint=constraint), list[int]()
    while not sampler.complete():
        tokens.append(sampler.sample(np.zeros(known.size, np.float32)))
        sampler.accept(tokens[-1])
    text = known.decode([token for token in tokens if token != 2])
    assert len(text) == 4
    assert set(text[:3]) <= {"a", "b"}
    assert text[3] == "!"


def test_the_grammar_counts_also_for_greedy_choices_and_bans() -> None:
    known = tokenizer("gpt-2")
    row = np.zeros(known.size, np.float32)
    row[known.encode("Hello")[0]] = 50
    sampler = Sampler(
        SamplerOptions(temperature=0), constraint=json_constraint({"const": 7}, known, [50256], known.size)
    )
    assert known.decode([sampler.sample(row)]) == "7"
    banned = SamplerOptions(temperature=0, banned_tokens=known.encode("7"))
    sampler = Sampler(banned, constraint=json_constraint({"const": 7}, known, [50256], known.size))
    with pytest.raises(ModelError, match="no token"):
        sampler.sample(row)


@pytest.mark.parametrize(
    "schema", [{"type": "nothing"}, "{", {"$ref": "http://elsewhere/x.json"}, {"type": "object", "not": 3}]
)
def test_schemas_that_cannot_be_used(schema: Any) -> None:
    known = tokenizer("gpt-2")
    with pytest.raises(UsageError, match="JSON schema"):
        json_constraint(schema, known, [50256], known.size)
    with pytest.raises(UsageError, match="grammar"):
        grammar_constraint("start: (", known, [50256], known.size)
