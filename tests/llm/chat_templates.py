"""Chat templates in the styles of well-known families, and chats for them."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

TEMPLATES = {
    "chatml": """{% for message in messages %}{% if loop.first and message.role != 'system' %}<|im_start|>system
You help.<|im_end|>
{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "llama2": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set first = messages[0]['content'] %}
{%- else %}{% set rest = messages %}{% set first = false %}{% endif %}
{%- for m in rest %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
    {%- if loop.index0 == 0 and first != false %}
        {%- set text = '<<SYS>>\\n' + first + '\\n<</SYS>>\\n\\n' + m['content'] %}
    {%- else %}{% set text = m['content'] %}{% endif %}
    {%- if m['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
    {%- elif m['role'] == 'assistant' %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}
{%- endfor %}""",
    "llama3": """{{- bos_token }}{% if tools is not defined %}{% set tools = none %}{% endif %}
{%- if not date is defined %}{% if strftime_now is defined %}{% set date = strftime_now("%Y") %}{% endif %}{% endif %}
{%- if messages[0].role == 'system' %}{% set first = messages[0].content | trim %}{% set messages = messages[1:] %}
{%- else %}{% set first = "" %}{% endif %}
{{- "<|start|>system\\n" }}{% if tools is not none %}{{ "Environment: ipython\\n" }}
{%- for t in tools %}{{ t | tojson(indent=4) }}{{ "\\n\\n" }}{% endfor %}{% endif %}{{ "Year: " ~ date ~ "\\n" ~ first }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '|' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}{{ raise_exception("One call at once!") }}{% endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson }}{{ "}<|eom|>" }}
    {%- elif message.content is mapping or message.content is iterable %}{{ message.content | tojson }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant|' }}{% endif %}""",
    "mistral": """{%- set turns = messages | selectattr('role', 'in', ['user', 'assistant']) | list %}{{ bos_token }}
{%- set ns = namespace(index=0, last=(turns | length) - 1) %}
{%- for message in turns %}
    {%- if message['role'] == 'user' %}
        {%- if tools is not none and ns.index == ns.last %}[AVAILABLE_TOOLS] [
        {%- for tool in tools %}{% set tool = tool.function %}{{ '{"type": "function", "function": {' }}
            {%- for key, val in tool.items() if key != "return" %}
                {%- if val is string %}{{ '"' + key + '": "' + val + '"' }}{% else %}{{ '"' + key + '": ' + val|tojson }}{% endif %}
                {%- if not loop.last %}{{ ", " }}{% endif %}
            {%- endfor %}{{ "}}" }}{% if not loop.last %}, {% else %}]{% endif %}
        {%- endfor %}[/AVAILABLE_TOOLS]{% endif %}
        {{- '[INST] ' + message['content'] + '[/INST]' }}
    {%- else %}{{ ' ' + (message['content'] or '') | trim + eos_token }}{% endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}""",
    "phi3": """{% for m in messages %}{% if (m['role'] == 'user') %}{{ '<|user|>' + '\\n' + m['content'] + '<|end|>' + '\\n'
+ '<|assistant|>' + '\\n' }}{% elif m['role'] == 'assistant' %}{{ m['content'] + '<|end|>' + '\\n' }}{% endif %}{% endfor %}""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% if messages[0]['content'] is string %}
{%- set prefix = messages[0]['content'] + '\\n\\n' %}{% else %}{% set prefix = messages[0]['content'][0]['text'] %}{% endif %}
{%- set loop_messages = messages[1:] %}{% else %}{% set prefix = "" %}{% set loop_messages = messages %}{% endif %}
{%- for message in loop_messages -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}{% for item in message['content'] -%}
        {%- if item['type'] == 'image' -%}{{ '<image>' }}{% elif item['type'] == 'text' -%}{{ item['text'] | trim }}{% endif -%}
    {%- endfor %}{% endif -%}{{ '<end_of_turn>\\n' }}
{%- endfor -%}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "qwen3": """{%- if tools %}{{- '<|im_start|>system\\n# Tools' }}
{%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{% endfor %}{{- "<|im_end|>\\n" }}{% endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>') and
    message.content.endswith('</tool_response>')) %}{% set ns.multi_step_tool = false %}{% set ns.last_query_index = index %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}{{- '<|im_start|>assistant\\n' + content }}{% endif %}
        {%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n{"name": "' }}{{- call.function.name }}
            {{- '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{% endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{% endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{% endif %}
    {%- else %}{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}""",
    "deepseek": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(is_first=false, is_tool=false, system='') %}
{%- for message in messages %}{% if message['role'] == 'system' %}{% set ns.system = message['content'] %}{% endif %}{% endfor %}
{{- bos_token }}{{ ns.system }}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{% set ns.is_tool = false -%}{{ '<｜User｜>' + message['content'] }}{% endif %}
{%- if message['role'] == 'assistant' and message['content'] is not none %}{% set content = message['content'] %}
    {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif -%}
    {{ '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{% endif %}
{%- if message['role'] == 'tool' %}{% set ns.is_tool = true -%}{{ '<｜tool▁output▁begin｜>' + message['content'] }}{% endif %}
{%- endfor -%}
{% if add_generation_prompt and not ns.is_tool %}{{ '<｜Assistant｜>' }}{% endif %}""",
    "macros": """{% macro shown(part, depth=0) %}{% if part is mapping %}{% for k, v in part | dictsort %}
{{ '  ' * depth }}{{ k }}:{{ shown(v, depth + 1) }}{% endfor %}{% elif part is sequence and part is not string %}
{{- part | map('string') | join(', ') }}{% else %}{{ ' %s' % part }}{% endif %}{% endmacro %}
{% for m in messages if m.role != 'system' %}{% if loop.index > 3 %}{% break %}{% endif %}{% generation %}{{ shown(m) }}
{% endgeneration %}{{ loop.cycle('a', 'b') }}{{ (loop.previtem.role if not loop.first else '') | default('none', true) | upper }}{% endfor %}
{% set joined %}{{ messages | map(attribute='role') | unique | sort | join('+') | replace('user', 'u') }}{% endset %}
{{ joined | indent(2, true) }} {{ [3, 1, 2] | sort | reverse | list }} {{ (7 / 2) | round | int }} {{ -7 // 2 }} {{ 2 ** 5 }}
{{ {'a': [1, none, true, 'é<']} | tojson }} {{ messages[-1].get('x', 'no') }} {{ 'ab,c'.split(',') }} {{ 1 in (1, 2) }}""",
}  # fmt: skip

CHATS: dict[str, list[dict[str, Any]]] = {
    "one": [{"role": "user", "content": "What is the capital of France?"}],
    "system": [
        {"role": "system", "content": "  Be <brief> & \"kind\".  "},
        {"role": "user", "content": "Hé 中文\n"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\n ok "},
        {"role": "user", "content": "more"},
    ],
    "tools": [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}]},
        {"role": "tool", "content": "{\"sky\": \"blue\"}"},
        {"role": "assistant", "content": "Blue.", "reasoning_content": "it says so"},
    ],
}  # fmt: skip

TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "The \"weather\" <now>", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "time", "description": "é", "parameters": {}}},
]  # fmt: skip
