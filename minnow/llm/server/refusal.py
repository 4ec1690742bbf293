"""What is wrong with a request, as OpenAI's clients expect to be told."""

from __future__ import annotations

from typing import Any

from minnow.llm.batch import QueueFullError
from minnow.schema.errors import FormatError, MinnowError, ModelError, UnsupportedError, UsageError


class RequestError(Exception):
    """An answer with an error.

    Args:
        status: of HTTP.
        message: what is wrong, and what to do.
        kind: its `type`: invalid_request_error, authentication_error, rate_limit_error, server_error.
        code: a word for programs.
        param: the field of the request.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.code, self.param = status, message, kind, code, param
        self.headers = headers or {}

    def as_dict(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None = None, code: str | None = None) -> RequestError:
    """A request that is wrong."""
    return RequestError(400, message, code=code or "invalid_value", param=param)


def answer_to(error: BaseException) -> RequestError:
    """The answer to a request that has failed."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, QueueFullError):
        text = f"{error.message}: {error.hint}"
        return RequestError(429, text, "rate_limit_error", "queue_full", headers={"Retry-After": "1"})
    if isinstance(error, (UsageError, UnsupportedError, FormatError)):  # the last one: a chat template fails
        too_long = "too long" in error.message
        text = "; ".join(filter(None, (error.message, error.why, error.hint)))
        return RequestError(400, text, code="context_length_exceeded" if too_long else "invalid_value")
    if isinstance(error, (MemoryError, ModelError)):
        return RequestError(503, "the model needs more memory than there is", "server_error", "out_of_memory")
    if isinstance(error, MinnowError):
        return RequestError(500, error.message, "server_error", "model_error")
    return RequestError(500, "the server has made an error; its log has more", "server_error", "internal_error")
