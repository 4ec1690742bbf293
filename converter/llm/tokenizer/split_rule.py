"""How texts are split before byte-level BPE, by the names that GGUF files have for it (`tokenizer.ggml.pre`)."""

from __future__ import annotations

from typing import NamedTuple

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(end: str, digits: str) -> str:
    """Words that begin a new one at a capital letter."""
    words = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{end}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{end}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_REST}"


class SplitRule(NamedTuple):
    """Attributes:
    patterns: expressions; each splits the parts that the one before has left, and its matches are parts.
    ignore_merges: a part that is a token is that token, whatever the merges say.
    adds_bos: a text begins with the begin mark, unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False


_GPT2 = SplitRule((GPT2,))
_DIGITS = SplitRule((r"\p{N}", GPT2))
_LLAMA3_RULE = SplitRule((_LLAMA3,), ignore_merges=True, adds_bos=True)
_WORDS = r" ?[^(\s|.,!?…。，、।۔،)]+"
_ASIAN = "[一-龥\u0800-一가-\ud7ff]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"""| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_REST}"""
)

RULES: dict[str, SplitRule] = {
    "default": SplitRule((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling"), _GPT2),
    **dict.fromkeys(("roberta-bpe", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code"), _GPT2),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"), _DIGITS),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3"), _LLAMA3_RULE),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), SplitRule((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), SplitRule((_QWEN2,))),
    "falcon": SplitRule((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    "deepseek-coder": SplitRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, r"\p{N}")),
    "deepseek-v3": SplitRule((r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", _DEEPSEEK3)),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), SplitRule((_WORDS,))),
    "viking": SplitRule((_WORDS, r"\p{N}")),
    "tekken": SplitRule((_cased("", r"\p{N}"),), ignore_merges=True),
    **dict.fromkeys(("gpt-4o", "llama4"), SplitRule((_cased(rf"{_CONTRACTIONS}?", r"\p{N}{1,3}"),))),
}
"""The rules by name."""
