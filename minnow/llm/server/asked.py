"""What a request asks for, from the fields of `/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minnow.llm.llm import LLM
from minnow.llm.server.field import Body
from minnow.llm.server.refusal import RequestError, invalid
from minnow.options.generate import AnswerOptions, ServerOptions
from minnow.schema.errors import FormatError, UsageError

_STOPS, _TOP, _PROMPTS = 16, 20, 64
_PLAIN_TOKENS = 16  # of /v1/completions, where a request does not say it


@dataclass
class Asked:
    """What a request asks for.

    Attributes:
        chat: it is of `/v1/chat/completions`.
        prompts: as tokens.
        options: of each answer, but for their seeds.
        choices: answers to each prompt.
        stream: as events. usage: with the number of tokens in the last one.
        tools: names of tools that the model may call.
        echo: texts of the prompts, to be repeated in front of the answers.
        client: whose turn it is.
    """

    chat: bool
    prompts: list[list[int]]
    options: dict[str, Any]
    choices: int = 1
    stream: bool = False
    usage: bool = False
    tools: frozenset[str] = frozenset()
    echo: list[str] = field(default_factory=list)
    client: str = ""

    def answer_options(self, choice: int) -> AnswerOptions:
        """The options of an answer: with a seed, each choice has its own."""
        seed = self.options.get("seed")
        return AnswerOptions(**self.options | ({} if seed is None else {"seed": (seed + choice) % 2**63}))


def asked(body: Body, llm: LLM, options: ServerOptions, chat: bool) -> Asked:
    """What a request asks for.

    Raises:
        RequestError: a field is wrong, or asks for what is not supported.
    """
    given = body.sampler(llm.description.vocab_size)
    choices = body.whole("n", 1, options.max_choices, 1) or 1
    most = body.whole("max_completion_tokens", 1, 2**31) or body.whole("max_tokens", 1, 2**31)
    if not chat and most is None:
        most = _PLAIN_TOKENS
    limits = [n for n in (most, options.max_answer) if n is not None]
    given |= {"max_tokens": min(limits, default=None), "stop": body.texts("stop", _STOPS)}
    stream = body.flag("stream")
    told = Body(body.table("stream_options") or {})
    out = Asked(chat, [], given, choices, stream, stream and told.flag("include_usage"), client=body.text("user")[:200])
    for name in ("functions", "suffix", "audio", "prediction", "web_search_options"):
        if body.get(name):
            raise invalid(f"'{name}' is not supported", name, "unsupported")
    if chat:
        _chat(body, llm, options, out)
    else:
        _plain(body, llm, out)
    return out


def _plain(body: Body, llm: LLM, out: Asked) -> None:
    """The fields of `/v1/completions`."""
    prompt = body.get("prompt")
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and _is_token(prompt[0])):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise invalid("'prompt' is neither text, nor tokens, nor a list of these", "prompt")
    if len(prompt) > _PROMPTS:
        raise invalid(f"'prompt' has {len(prompt)} prompts, and {_PROMPTS} are allowed", "prompt")
    if not all(isinstance(one, str) or (isinstance(one, list) and all(map(_is_token, one))) for one in prompt):
        raise invalid("'prompt' is neither text, nor tokens, nor a list of these", "prompt")
    out.prompts = [llm.prompt_tokens(one, raw=True) for one in prompt]
    if (body.whole("best_of", 1, 128, out.choices)) != out.choices:
        raise invalid("'best_of' is not supported", "best_of", "unsupported")
    if body.flag("echo"):
        out.echo = [one if isinstance(one, str) else llm.tokenizer.decode(one) for one in prompt]
    out.options["logprobs"] = body.whole("logprobs", 0, _TOP)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _chat(body: Body, llm: LLM, options: ServerOptions, out: Asked) -> None:
    """The fields of `/v1/chat/completions`."""
    if body.flag("logprobs"):
        out.options["logprobs"] = body.whole("top_logprobs", 0, _TOP, 0)
    elif "top_logprobs" in body:
        raise invalid("'top_logprobs' needs 'logprobs'", "top_logprobs")
    out.options["json_schema"] = _schema(body)
    tools = _tools(body)
    choice = body.get("tool_choice")
    if choice == "none":
        tools = []
    elif choice not in (None, "auto"):
        out.options["json_schema"] = _call_schema(tools, choice)
    out.tools = frozenset(tool["function"]["name"] for tool in tools)
    variables: dict[str, Any] = dict(body.table("chat_template_kwargs") or {})
    if own := [name for name in variables if name in ("messages", "tools", "prompt", "raw", "self")]:
        raise invalid(f"'chat_template_kwargs' has {own[0]!r}", "chat_template_kwargs")
    variables |= {"tools": tools} if tools else {}
    out.prompts = [llm.prompt_tokens(_messages(body, _Images(llm, options)), **variables)]


class _Images:
    """Reads the images of a request, each as soon as it is found, so that no more than one is there in full size."""

    def __init__(self, llm: LLM, options: ServerOptions) -> None:
        self._prompts, self._options, self._count = llm.images, options, 0

    @property
    def kinds(self) -> str:
        """What the model reads."""
        return "text" if self._prompts is None else "text and images"

    def part(self, part: Mapping[str, Any], where: str) -> dict[str, Any]:
        """A part of a message with the image that a part of a request asks for."""
        if self._prompts is None:
            raise invalid(f"'{where}' has a part of type 'image_url'; the model reads text only", where, "unsupported")
        given = part.get("image_url")
        url = given.get("url") if isinstance(given, Mapping) else given
        if not isinstance(url, str):
            raise invalid(f"'{where}' has an image_url without a url", where)
        self._count += 1
        most = self._options.max_images
        if self._count > most:
            raise invalid(f"'messages' have more than {most} images", where, "too_many_images")
        try:
            image = self._prompts.prepared(url, local=False, most_pixels=self._options.max_pixels)
        except (FormatError, UsageError) as e:
            text = "; ".join(filter(None, (e.message, e.why, e.hint)))
            raise invalid(f"'{where}': {text}", where, "invalid_image") from None
        return {"type": "image", "image": image}


def _messages(body: Body, images: _Images) -> list[dict[str, Any]]:
    """The messages in the form that templates know: text as text, arguments of calls as objects."""
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise invalid("'messages' is no list of messages", "messages")
    out = []
    for place, message in enumerate(given):
        where = f"messages[{place}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid(f"'{where}' is no object with a role", where)
        role = "system" if message["role"] == "developer" else message["role"]
        calls = message.get("tool_calls")
        content = _content(message.get("content"), images, f"{where}.content", missing=bool(calls))
        made = {**{k: message[k] for k in ("name", "tool_call_id") if k in message}, "role": role, "content": content}
        if calls:
            made["tool_calls"] = _past_calls(calls, f"{where}.tool_calls")
        out.append(made)
    return out


def _content(value: Any, images: _Images, where: str, missing: bool) -> str | list[dict[str, Any]]:
    """Text, or parts if there are images."""
    if value is None and missing:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise invalid(f"'{where}' is neither text nor a list of parts", where)
    parts: list[dict[str, Any]] = []
    for part in value:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "image_url":
            parts.append(images.part(part, where))
            continue
        if kind not in ("text", "refusal") or not isinstance(part.get(kind), str):
            what = f"a part of type {kind!r}" if isinstance(kind, str) else "something else than parts"
            raise invalid(f"'{where}' has {what}; the model reads {images.kinds} only", where, "unsupported")
        parts.append({"type": "text", "text": part[kind]})
    return parts if any(p["type"] == "image" for p in parts) else "".join(p["text"] for p in parts)


def _past_calls(value: Any, where: str) -> list[dict[str, Any]]:
    out = []
    for call in value if isinstance(value, list) else [None]:
        function = call.get("function") if isinstance(call, dict) else None
        if call is None or not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid(f"'{where}' is no list of calls with a function", where)
        arguments = function.get("arguments") or "{}"
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                raise invalid(f"'{where}' has arguments that are no JSON", where) from None
        out.append({**call, "type": "function", "function": {**function, "arguments": arguments}})
    return out


def _tools(body: Body) -> list[dict[str, Any]]:
    given: Any = body.get("tools") or []
    for tool in given if isinstance(given, list) else [None]:
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise invalid("'tools' is no list of functions with names", "tools")
        if not isinstance(function.get("parameters", {}), dict):
            raise invalid("'tools' has parameters that are no JSON schema", "tools")
    return list(given)


def _call_schema(tools: Sequence[Mapping[str, Any]], choice: Any) -> dict[str, Any]:
    """The JSON schema of a call, where the model has to make one."""
    if isinstance(choice, dict):
        function = choice.get("function")
        wanted = function.get("name") if isinstance(function, dict) else None
        tools = [tool for tool in tools if tool["function"]["name"] == wanted]
    elif choice != "required":
        raise invalid("'tool_choice' is none of none, auto, required, and a function of 'tools'", "tool_choice")
    if not tools:
        raise invalid("'tool_choice' asks for a function that is not in 'tools'", "tool_choice")
    calls = []
    for tool in tools:
        parameters = tool["function"].get("parameters") or {"type": "object"}
        fields = {"name": {"const": tool["function"]["name"]}, "arguments": parameters}
        calls.append({"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False})
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def _schema(body: Body) -> dict[str, Any] | None:
    """The JSON schema of the answer, if there is one."""
    given = Body(body.table("response_format") or {"type": "text"})
    kind = given.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise invalid("'response_format' is none of text, json_object and json_schema", "response_format")
    schema = Body(given.table("json_schema") or {}).table("schema")
    if schema is None:
        raise invalid("'response_format' has no json_schema.schema", "response_format")
    return dict(schema)


def check_model(body: Body, name: str) -> None:
    """Checks that the request is for this model, if it says for which one it is."""
    wanted = body.text("model")
    if wanted and wanted != name:
        message = f"there is no model {wanted[:100]!r} here, but {name!r}"
        raise RequestError(404, message, code="model_not_found", param="model")
