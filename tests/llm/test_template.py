"""Chat templates: the texts that transformers makes, and templates that mean harm."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import re
import time
import types
from typing import Any

import pytest
from chat_templates import CHATS, TEMPLATES, TOOLS

from minnow.llm.template import ChatTemplate, sandbox
from minnow.schema.errors import FormatError, MinnowError, UsageError

MARKS = {"bos_token": "<s>", "eos_token": "</s>"}
CASES = list(itertools.product((None, TOOLS), (True, False), ({}, {"enable_thinking": False})))


@functools.cache
def theirs() -> Any:
    from transformers.utils.chat_template_utils import render_jinja_template

    return render_jinja_template


def rendered(name: str, chat: str, **more: Any) -> tuple[str, str]:
    """The text that transformers makes, or the error."""
    try:
        return theirs()([CHATS[chat]], chat_template=TEMPLATES[name], **MARKS, **more)[0][0], ""
    except Exception as e:  # noqa: BLE001  (of jinja2 or of Python)
        return "", str(e)


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_of_transformers(name: str, chat: str) -> None:
    template, accepted = ChatTemplate(TEMPLATES[name], **MARKS), 0
    for tools, prompt, more in CASES:
        expected, error = rendered(name, chat, tools=tools, add_generation_prompt=prompt, **more)
        if error:
            with pytest.raises(MinnowError, match=re.escape(error)):
                template.render(CHATS[chat], tools=tools, add_generation_prompt=prompt, **more)
            continue
        assert template.render(CHATS[chat], tools=tools, add_generation_prompt=prompt, **more) == expected
        accepted += 1
    assert accepted == len(CASES) or (accepted, chat) == (0, "tools")


def test_a_message_that_is_continued() -> None:
    template = ChatTemplate(TEMPLATES["chatml"])
    chat = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one, two,"}]
    text = template.render(chat, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith("<|im_start|>assistant\none, two,")
    (expected,), _ = theirs()([chat], chat_template=TEMPLATES["chatml"], continue_final_message=True)
    assert text == expected
    with pytest.raises(UsageError):
        template.render(chat, continue_final_message=True)


def test_messages_are_data() -> None:
    template = ChatTemplate("{{ messages[0].content }}")
    assert template.render([{"role": "user", "content": "{{ 7 * 7 }}"}]) == "{{ 7 * 7 }}"
    with pytest.raises(UsageError, match="object"):
        template.render([{"role": "user", "content": object()}])
    deep: Any = "x"
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(UsageError, match="deeply"):
        template.render([{"role": "user", "content": deep}])


def test_what_the_template_refuses_is_the_fault_of_the_caller() -> None:
    chat = [{"role": "assistant", "content": "x"}]
    with pytest.raises(UsageError, match="Roles must alternate"):
        ChatTemplate(TEMPLATES["llama2"], **MARKS).render(chat)


HARMFUL = [
    "{{ messages.__class__.__mro__ }}",
    "{{ ''|attr('__class__') }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ raise_exception.__globals__.x }}",
    "{{ environment.spend }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'a': 1}) }}",
    "{% include 'x' %}",
    "{% import '/etc/passwd' as x %}",
    "{{ lipsum() }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}text{% endfor %}{% endfor %}",
    "{% set l = range(99999)|list %}{% for i in range(99999) %}{{ l|sort|length }}{% endfor %}",
    "{% macro a(n) %}{{ a(n) }}{% endmacro %}{{ a(1) }}",
    "{% macro a(n) %}{% if n %}{{ a(n-1) }}{{ a(n-1) }}{% endif %}{% endmacro %}{{ a(60) }}",
    "{% for x in messages recursive %}{{ loop(messages) }}{{ loop(messages) }}{% endfor %}",
    "{{ range(10**9)|list }}",
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ 'a'.center(999999999) }}",
    "{{ 'a'|center(999999999) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ 10 ** 99999999 }}",
    "{% set ns = namespace(i=9) %}{% for i in range(99) %}{% set ns.i = ns.i * ns.i %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(60) %}{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}"
    "{% set ns.s = x %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(60) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
    "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == 1 }}",
    "{% set ns = namespace(l=1) %}{% for i in range(99) %}{% set ns.l = namespace(a=ns.l, b=ns.l) %}{% endfor %}"
    "{{ ns }}",
    "{{ [[1] * 1000000] * 1000000 }}",
    "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}",
    "{{ ('a' * 1000000)|list|join('b' * 1000000) }}",
    "{{ ('b' * 1000000).join(('a' * 1000000)|list) }}",
    "{{ ('\n' * 1000000)|indent(1000) }}",
    "{{ [1]|tojson(indent=99999999) }}",
    "{{ strftime_now('%Y' * 10000000) }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "-" * 100_000 + "1 }}",
    "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "x" * (1 << 21),
    "{{ 1 +",
    "{% for %}",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", HARMFUL, ids=lambda source: source[:60])
def test_templates_that_mean_harm(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    start = time.process_time()
    with pytest.raises(FormatError):
        ChatTemplate(source, **MARKS).render([{"role": "user", "content": "x"}])
    assert time.process_time() - start < 10


def test_time_is_measured_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few slow calls are as long as many quick steps."""
    now = itertools.count()
    monkeypatch.setattr(sandbox, "time", types.SimpleNamespace(monotonic=lambda: float(next(now))))
    render = ChatTemplate("{{ messages|sort(attribute='role')|length }}" * 9, **MARKS).render
    with pytest.raises(FormatError, match="not finished"):
        render([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    "source", ["{{ ''.__class__ }}", "{{ range.__self__ }}", "{{ self._TemplateReference__context }}"]
)
def test_what_is_inside_objects_is_not_there(source: str) -> None:
    assert ChatTemplate(source).render([]) == ""


def test_a_template_is_used_again_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ROUNDS", 50)
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(FormatError, match="come to an end"):
        template.render([{"content": "x"}] * 100)
    assert template.render([{"content": "x"}] * 10) == "x" * 10


@pytest.mark.parametrize("seed", range(4))
def test_damaged_templates(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    render_damaged(seed, 60)


@pytest.mark.slow
def test_ten_thousand_damaged_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    render_damaged(99, 10_000)


def render_damaged(seed: int, count: int) -> None:
    """Pieces of templates are left out, doubled, exchanged: only our errors."""
    rng = random.Random(seed)
    sources = list(TEMPLATES.values())
    for _ in range(count):
        source, other = rng.choice(sources), rng.choice(sources)
        for _ in range(rng.randint(1, 4)):
            a, b = sorted(rng.randrange(len(source) + 1) for _ in range(2))
            c = rng.randrange(len(other))
            piece = rng.choice(
                ["", source[a:b] * 2, other[c : c + 40], "{{ ", "}}", "{% endif %}", "|list", "99999999"]
            )
            source = source[:a] + piece + source[min(b, a + 60) :]
        with contextlib.suppress(FormatError, UsageError):
            ChatTemplate(source, **MARKS).render(rng.choice(list(CHATS.values())), tools=TOOLS)
