"""Chat templates in the form of Hugging Face: Jinja with `messages`, `tools` and what a caller adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from minnow.llm.template.sandbox import Sandbox
from minnow.schema.errors import FormatError, MinnowError, UsageError

Message = Mapping[str, Any]
_LONGEST = 1 << 20
_DEEPEST = 100


class ChatTemplate:
    """Turns messages into the text that a model continues.

    Args:
        source: the template.
        tokens: texts of special tokens by the names that templates use: bos_token, eos_token, ...

    Raises:
        FormatError: the template cannot be read.
        UsageError: jinja2 is not installed.
    """

    def __init__(self, source: str, **tokens: str) -> None:
        self.source, self.tokens = source, tokens
        self._sandbox = Sandbox()
        self._sandbox.environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        if len(source) > _LONGEST:
            raise FormatError("the chat template is too long", why=f"{len(source)} characters")
        self._template = self._tried(lambda: self._sandbox.compiled(source))

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The text of a chat.

        Args:
            messages: each with `role` and `content`; `content` may be a list of parts, if the template knows such.
            tools: functions that the model may call, as JSON schemas.
            documents: texts that it may cite.
            add_generation_prompt: end with what begins an answer.
            continue_final_message: end within the last message, which the model continues.
            variables: more of what the template asks for, such as `enable_thinking`.

        Raises:
            UsageError: the template does not accept these messages.
            FormatError: the template fails, or does not come to an end.
        """
        if continue_final_message and add_generation_prompt:
            raise UsageError("the last message cannot be continued after the beginning of an answer")
        given = {"messages": messages, "tools": tools, "documents": documents, **self.tokens, **variables}
        given = {key: _plain(value, key) for key, value in given.items()}
        given["add_generation_prompt"] = add_generation_prompt
        text = str(self._tried(lambda: self._template.render(**given)))
        return _without_end(text, given["messages"]) if continue_final_message else text

    def _tried(self, step: Any) -> Any:
        self._sandbox.begin()
        try:
            return step()
        except MinnowError:
            raise
        except MemoryError:
            raise FormatError("the chat template needs more memory than there is") from None
        except RecursionError:
            raise FormatError("the chat template is nested too deeply") from None
        except Exception as e:  # noqa: BLE001  (a template can raise what it wants)
            why = f"{type(e).__name__}: {str(e)[:300]}"
            line = getattr(e, "lineno", None)
            raise FormatError("the chat template fails", where=f"line {line}" if line else "", why=why) from None


def _refuse(message: Any) -> None:
    raise UsageError("the chat template does not accept the messages", why=str(message)[:1000])


def _now(format: str) -> str:
    return datetime.now().strftime(format[:200])


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """A copy of what is made of tables, lists, texts, numbers, true, false and null; anything else is refused."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if depth > _DEEPEST:
        raise UsageError(f"'{where}' is nested too deeply")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, where, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, where, depth + 1) for inner in value]
    raise UsageError(f"'{where}' has a value of the type {type(value).__name__}", hint="give texts, numbers and tables")


def _without_end(text: str, messages: Sequence[Message]) -> str:
    """The text up to the end of the last message's content."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, list):
        content = content[-1].get("text") if content and isinstance(content[-1], dict) else None
    if not isinstance(content, str) or not content.strip():
        raise UsageError("there is no last message to continue")
    for last in (content, content.strip()):
        at = text.rfind(last)
        if at >= 0:
            return text[: at + len(last)]
    raise UsageError("the last message cannot be continued", why="the chat template changes it")
