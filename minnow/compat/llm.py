"""What `MNN.llm` is: language models with the methods of MNN's Python package.

from MNN import llm

model = llm.create("smollm2/llm.json")
model.load()
print(model.response("What is the capital of France?", False))

The folder is one that `mnnconvert MODEL -o FOLDER` has made. Methods are about one conversation at a time.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.schema.errors import FormatError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from minnow.expr import Var

__all__ = ["LLM", "LlmStatus", "create", "create_reranker"]

_ANSWER = {
    "max_new_tokens": "max_tokens", "temperature": "temperature", "top_k": "top_k", "topK": "top_k", "top_p": "top_p",
    "topP": "top_p", "min_p": "min_p", "minP": "min_p", "tfs_z": "tfs_z", "tfsZ": "tfs_z", "typical": "typical_p",
    "repetition_penalty": "repetition_penalty", "penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "penalty_window": "penalty_window", "logit_bias": "logit_bias", "banned_tokens": "banned_tokens", "seed": "seed",
}  # fmt: skip
"""Settings of MNN for answers, and what `LLM.generate` of Minnow calls them."""
_LOAD = {"thread_num": "threads", "device": "device"}
_PRECISIONS = {"low": "low", "normal": "high", "high": "high"}
_KNOWN = ("precision", "sampler_type", "use_template", "jinja", "system_prompt")
_FILES = ("llm.json", "config.json", "llm_config.json")


class LlmStatus:
    """Why an answer has ended, as `get_context()["status"]` says it."""

    NOT_LOADED = -1
    RUNNING = 0
    NORMAL_FINISHED = 1
    MAX_TOKENS_FINISHED = 2
    USER_CANCEL = 3
    INTERNAL_ERROR = 4
    TIMEOUT = 5


_STATUS = {
    "stop": LlmStatus.NORMAL_FINISHED, "length": LlmStatus.MAX_TOKENS_FINISHED, "cancelled": LlmStatus.USER_CANCEL,
}  # fmt: skip


def _folder(config: Any) -> Path:
    if not isinstance(config, (str, os.PathLike)) or not os.fspath(config):
        raise UsageError(f"{config!r} is not a path", hint="the folder of a model, or llm.json in it")
    path = Path(os.fspath(config))
    if path.is_dir():
        return path
    if not path.is_file():
        raise FormatError("there is no such file", where=str(path))
    if path.name not in _FILES:
        raise UsageError(f"{path} is not a file that describes a model", hint=f"one of {', '.join(_FILES)}")
    return path.parent


def _for_answers(config: Mapping[str, Any]) -> dict[str, Any]:
    return {ours: config[key] for key, ours in _ANSWER.items() if key in config}


class LLM:
    """A language model; `create` makes it.

    Attributes:
        context: what the latest answer took: a dict with `prompt_len`, `gen_seq_len`, `history_tokens`,
            `output_tokens`, `generate_str`, `status` (see `LlmStatus`), `prefill_us` and `decode_us`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config: dict[str, Any] = {}
        self._llm: Any = None
        self._tokens: list[int] = []
        self._sequence: Any = None
        self.context: dict[str, Any] = {}
        self._forget()
        given = folder / "config.json"
        if given.is_file():
            try:
                config = json.loads(given.read_text())
            except ValueError as error:
                raise FormatError("the settings are no JSON", where=str(given), why=str(error)) from None
            known = {*_ANSWER, *_LOAD, *_KNOWN}
            if isinstance(config, dict):
                self.set_config({key: value for key, value in config.items() if key in known})

    def _forget(self) -> None:
        self._tokens.clear()
        if self._sequence is not None:
            self._sequence.close()
        self._sequence = None
        status = LlmStatus.NOT_LOADED if self._llm is None else LlmStatus.NORMAL_FINISHED
        self.context = {
            "prompt_len": 0, "gen_seq_len": 0, "history_tokens": [], "output_tokens": [], "generate_str": "",
            "status": status, "prefill_us": 0, "decode_us": 0,
        }  # fmt: skip

    @property
    def _loaded(self) -> Any:
        if self._llm is None:
            raise UsageError("the model is not loaded", hint="load() before this")
        return self._llm

    # ---- settings

    def load(self) -> None:
        """Reads the model.

        Raises:
            FormatError: a file is missing, or damaged.
        """
        import minnow.llm

        options = {ours: self._config[key] for key, ours in _LOAD.items() if key in self._config}
        if "precision" in self._config:
            options["precision"] = _PRECISIONS[self._config["precision"]]
        self._llm = minnow.llm.load(self._folder, **options)
        self._forget()

    def set_config(self, config: Mapping[str, Any]) -> bool:
        """Changes settings: MNN's keys for answers (max_new_tokens, temperature, topK, ...), and before `load`
        thread_num and precision. Unknown ones are ignored with a warning.

        Returns:
            True.

        Raises:
            UsageError: a value is wrong.
        """
        if isinstance(config, str):
            try:
                config = json.loads(config)
            except ValueError:
                raise UsageError("the configuration is neither a dict nor JSON") from None
        if not isinstance(config, Mapping):
            raise UsageError(f"a configuration is a dict, not {type(config).__name__}")
        from minnow.options.generate import AnswerOptions

        changed = dict(self._config)
        for key, value in config.items():
            if key not in _ANSWER and key not in _LOAD and key not in _KNOWN:
                warnings.warn(f"configuration: '{key}' is unknown, and ignored", stacklevel=2)
                continue
            if key == "precision" and value not in _PRECISIONS:
                raise UsageError(f"precision {value!r} is unknown", hint=f"one of {', '.join(_PRECISIONS)}")
            changed[key] = value
        AnswerOptions(**_for_answers(changed))
        self._config = changed
        return True

    def dump_config(self) -> dict[str, Any]:
        """The settings that were given."""
        return dict(self._config)

    def _options(self, most: int | None) -> dict[str, Any]:
        """Options of an answer."""
        options = _for_answers(self._config)
        if self._config.get("sampler_type") == "greedy":
            options["temperature"] = 0.0
        if most is not None and most > 0:
            options["max_tokens"] = most
        return options

    # ---- text

    def tokenizer_encode(self, prompt: str) -> list[int]:
        """The tokens of a text."""
        if not isinstance(prompt, str):
            raise UsageError(f"a prompt is a text, not {type(prompt).__name__}")
        return list(self._loaded.encode(prompt))

    def tokenizer_decode(self, token: int | Sequence[int]) -> str:
        """The text of a token, or of several."""
        ids = [token] if isinstance(token, (int, np.integer)) else list(token)
        return str(self._loaded.tokenizer.decode([int(i) for i in ids], skip_special=False))

    def apply_chat_template(self, prompt: str | Sequence[Any]) -> str:
        """The prompt that the chat template makes of a question, or of messages: dicts, or pairs of role and text."""
        return str(self._loaded.apply_chat_template(self._messages(prompt)))

    def _messages(self, prompt: str | Sequence[Any]) -> list[dict[str, Any]]:
        if isinstance(prompt, str):
            system = self._config.get("system_prompt")
            first = [{"role": "system", "content": system}] if system else []
            return [*first, {"role": "user", "content": prompt}]
        rows = list(prompt)
        if not rows or not all(
            isinstance(row, Mapping) or (isinstance(row, (list, tuple)) and len(row) == 2) for row in rows
        ):
            raise UsageError("messages are dicts with role and content, or pairs of them")
        return [dict(row) if isinstance(row, Mapping) else {"role": row[0], "content": row[1]} for row in rows]

    # ---- answers

    def response(self, prompt: str | Sequence[Any], stream: bool = False, max_new_tokens: int | None = None) -> str:
        """The answer to a question, or to the last one of messages; with `stream` it is also printed as it is written.

        Raises:
            UsageError: the prompt is empty or too long.
        """
        llm = self._loaded
        raw = self._config.get("use_template") is False or not llm.has_template
        given: Any = prompt if isinstance(prompt, str) and raw else self._messages(prompt)
        generation = llm.generate(given, raw=raw, **self._options(max_new_tokens))
        self.context["status"] = LlmStatus.RUNNING
        for piece in generation:
            if stream:
                sys.stdout.write(piece)
                sys.stdout.flush()
        if stream:
            sys.stdout.write("\n")
        result = generation.result
        prompt_tokens = llm.prompt_tokens(given, raw=raw)
        self._note(prompt_tokens, result)
        return str(result.text)

    def generate(self, input_ids: Sequence[int], max_new_tokens: int | None = None) -> list[int]:
        """Continues tokens: gives those that follow."""
        ids = [int(i) for i in np.asarray(input_ids).ravel()]
        result = self._loaded.generate(ids, **self._options(max_new_tokens)).result
        self._note(ids, result)
        return list(result.tokens)

    def _note(self, prompt: Sequence[int], result: Any) -> None:
        self._forget()
        self._tokens += [*prompt, *result.tokens]
        seconds = result.times.total - result.times.first
        self.context.update(
            prompt_len=result.usage.prompt, gen_seq_len=result.usage.answer, history_tokens=list(self._tokens),
            output_tokens=list(result.tokens), generate_str=result.text, status=_STATUS[result.reason],
            prefill_us=round(1e6 * result.times.first), decode_us=round(1e6 * seconds),
        )  # fmt: skip

    def generate_init(self) -> None:
        """Begins anew, for `forward`."""
        if self._loaded is not None:
            self._forget()

    def forward(self, input_ids: Any) -> Var:
        """Appends tokens to those that it was called with since `reset`, and computes the logits of the one that
        follows.

        Args:
            input_ids: tokens.

        Returns:
            float32 [1, 1, size of the vocabulary].

        Raises:
            UsageError: there are none, one is not in the vocabulary, or they are too many.
        """
        from minnow.expr import Var

        llm = self._loaded
        ids = llm.prompt_tokens([int(i) for i in np.asarray(input_ids).ravel()])
        if len(self._tokens) + len(ids) > llm.description.context:
            raise UsageError(f"the model takes {llm.description.context:,} tokens", hint="reset()")
        if self._sequence is None:
            self._sequence = llm.model.sequence()
        logits = np.asarray(llm.model.step([(ids, self._sequence, 1)]))
        self._tokens += ids
        self.context["history_tokens"] = list(self._tokens)
        return Var.from_array(logits.reshape(1, 1, -1))

    def stoped(self) -> bool:
        """Whether the latest answer has ended by itself, or by a limit."""
        return self.context["status"] in (LlmStatus.NORMAL_FINISHED, LlmStatus.MAX_TOKENS_FINISHED)

    def reset(self) -> None:
        """Forgets what was said."""
        self._forget()

    def get_current_history(self) -> int:
        """Number of tokens that `forward` goes on from, or of the latest answer with its prompt."""
        return len(self._tokens)

    def erase_history(self, begin: int, end: int = 0) -> None:
        """Forgets tokens from a place on, to the end.

        Raises:
            UsageError: others follow them: what was computed of these depends on them.
        """
        count = len(self._tokens)
        first = begin + count if begin < 0 else begin
        if not 0 <= first <= count or end not in (0, count):
            raise UsageError(
                f"tokens {begin} to {end} cannot be forgotten of {count}", hint="erase_history(begin, 0): up to the end"
            )
        del self._tokens[first:]
        if self._sequence is not None:
            self._sequence.rewind(first)
        self.context["history_tokens"] = list(self._tokens)

    def get_context(self) -> dict[str, Any]:
        """What the latest answer took; see `context`."""
        return dict(self.context)

    def get_log(self) -> str:
        """The texts of the latest answer and its tokens: one line."""
        c = self.context
        return f"{c['prompt_len']} tokens of the prompt, {c['gen_seq_len']} of the answer"

    def txt_embedding(self, text: str) -> Var:
        """The vector of a text, float32 [1, size], of a model for embeddings."""
        from minnow.expr import Var

        return Var.from_array(np.asarray(self._loaded.embed(text), np.float32))

    def create_lora(self, path: Any) -> LLM:
        """Refused: adapters are merged when a model is converted."""
        raise UnsupportedError("adapters of a loaded model are not possible", hint="convert the merged model")

    def set_context(self, context: Any) -> None:
        """Refused: `forward` and `erase_history` change what was said."""
        raise UnsupportedError("the context cannot be replaced", hint="reset(), then forward(tokens)")

    def enable_collection_mode(self, *arguments: Any) -> None:
        """Refused: `minnow.quantize` calibrates models."""
        raise UnsupportedError("there is no collection of activations", hint="minnow.quantize calibrates models")


class Reranker:
    """A model that ranks texts; `create_reranker` makes it."""

    def __init__(self, folder: Path) -> None:
        import minnow.llm

        self._llm = minnow.llm.load(folder)

    def compute_scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """How well each text answers the query."""
        return list(self._llm.rerank(query, list(documents)))


def create(config: Any, embedding: bool = False) -> LLM:
    """A language model, or with `embedding` one that gives vectors, which `load` then reads.

    Args:
        config: the folder of a model, or a file in it that describes the model.
        embedding: it is for `txt_embedding`.

    Raises:
        FormatError: there is no such file.
    """
    return LLM(_folder(config))


def create_reranker(config: Any) -> Reranker:
    """A model that ranks texts.

    Raises:
        FormatError: there is no such file, or it is damaged.
    """
    return Reranker(_folder(config))
