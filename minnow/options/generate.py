"""Options of language models: loading them, writing answers, and the commands of `mnnconvert llm`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from minnow.options.option import Options, option
from minnow.options.read import Path
from minnow.options.run import ComputeOptions, Precision
from minnow.options.sampler import SamplerOptions


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LanguageComputeOptions(ComputeOptions):
    """How a language model computes."""

    SECTION: ClassVar[str] = "Running the model"

    precision: Precision = option(
        "normal",
        "Precision of products with constant weights, as for other models; the error of normal, 16 bits of each "
        "factor, is far below that of weights in 2 to 8 bits.",
    )
    device: str = option("cpu", "Where the model runs: cpu, or a device such as cuda.")
    cache: Literal["f16", "f32", "int8"] = option("f16", "Numbers of the cached keys and values.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BatchOptions(Options):
    """How many requests a language model works on."""

    SECTION: ClassVar[str] = "Many requests"

    sequences: int = option(16, "How many answers are written at a time; other requests wait.", least=1, most=4096)
    chunk: int = option(512, "How many tokens of prompts a step of the model takes at most.", least=16)
    queue: int = option(256, "How many requests may wait; more are refused.", least=0)
    cached_tokens: int | None = option(
        None,
        "How many tokens all answers together may have in the cache; by default four full contexts, but no more than a "
        "quarter of the machine's memory has room for.",
        least=16,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LanguageOptions(BatchOptions, LanguageComputeOptions):
    """Options of loading a language model: the arguments of `minnow.llm.load`."""

    SECTION: ClassVar[str] = "Running the model"

    draft: Path | None = option(
        None,
        "Guess tokens, which the model checks several at a time, with the same distribution: `ngram` finds them "
        "earlier in the text, a folder has a smaller language model of the same vocabulary.",
        metavar="ngram|DIR",
    )
    lora: Path | None = option(
        None,
        "Load the model with this adapter (LoRA): a folder with adapter_config.json and adapter_model.safetensors, as "
        "PEFT writes it.",
        metavar="DIR",
    )
    lora_scale: float = option(1.0, "How much of the adapter is added.")
    draft_tokens: int | None = option(
        None, "How many tokens are guessed at a time; by default 8 by n-grams, 4 by a model.", least=1, most=64
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnswerOptions(SamplerOptions):
    """Options of an answer: the arguments of `LLM.generate`."""

    SECTION: ClassVar[str] = "Answers"

    max_tokens: int | None = option(
        None,
        "The most tokens of the answer; by default what the context has left.",
        flags=("-n", "--max-tokens"),
        least=1,
    )
    stop: Any = option(
        (),
        "Ends the answer in front of this text. May be given several times.",
        python="A text, or a sequence of them.",
        repeated=True,
        metavar="TEXT",
    )
    json_schema: Any = option(
        None,
        "A file with a JSON schema that the answer shall satisfy.",
        python="The schema itself, a dictionary; {} is any JSON.",
        metavar="FILE",
    )
    logprobs: int | None = option(
        None,
        "How many of the most probable tokens the result shall tell with each token.",
        only_python=True,
        least=0,
        most=64,
    )
    images: Any = option(
        (),
        "An image of the prompt, in front of its text; with --raw where the text has the mark of an image, such as "
        "<image>. May be given several times.",
        flags=("--image",),
        python="A list of paths, `data:` URLs, bytes of files, arrays (uint8 [height, width, 3]), or images of Pillow.",
        repeated=True,
        metavar="FILE",
    )
    raw: bool = option(False, "A prompt that is a text is taken as it is, without the chat template.")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunLanguageCommand(LanguageOptions, AnswerOptions):
    """The flags of `mnnconvert llm run`."""

    SECTION: ClassVar[str] = "Prompt"

    prompt: str | None = option(
        None,
        "The question, or with --raw the text to continue; by default what is on standard input.",
        flags=("-p", "--prompt"),
        metavar="TEXT",
    )
    system: str = option("", "The system message.", metavar="TEXT")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChatCommand(LanguageOptions, AnswerOptions):
    """The flags of `mnnconvert llm chat`."""

    SECTION: ClassVar[str] = "Prompt"

    system: str = option("", "The system message.", metavar="TEXT")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BenchLanguageCommand(LanguageComputeOptions):
    """The flags of `mnnconvert llm bench`."""

    SECTION: ClassVar[str] = "Measuring"

    prefill: Sequence[str] = option(
        ("512",), "Lengths of prompts to read, in tokens.", flags=("-p", "--prefill"), metavar="N,..."
    )
    decode: Sequence[str] = option(
        ("128",), "Lengths of answers to write, in tokens.", flags=("-n", "--decode"), metavar="N,..."
    )
    batch: Sequence[str] = option(("1",), "How many answers are written at a time.", metavar="N,...")
    runs: int = option(5, "How often each is measured.", least=1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PerplexityCommand(LanguageComputeOptions):
    """The flags of `mnnconvert llm perplexity`."""

    SECTION: ClassVar[str] = "Windows"

    window: int = option(512, "Tokens of a window, with its first token.", least=2)
    stride: int | None = option(
        None,
        "How many tokens further the next window begins; by default a window, so that none overlap. Each token is "
        "predicted once, by the first window that has it, from the tokens before it in that window.",
        least=1,
    )
    limit: int | None = option(None, "Look only at this many tokens of the file.", least=2)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServerOptions(Options):
    """What a server of a language model admits."""

    SECTION: ClassVar[str] = "Server"

    host: str = option("127.0.0.1", "The address to listen at; by default only programs of this machine reach it.")
    port: int = option(8080, "The port to listen at; 0 takes a free one.", least=0, most=65535)
    api_key: str = option(
        "", "Only requests with this key are answered; by default the value of MINNOW_API_KEY.", metavar="KEY"
    )
    model_name: str = option("", "What the model is called; by default as its description says.", metavar="NAME")
    max_body: int = option(4 << 20, "The largest body of a request, in bytes.", least=1, metavar="BYTES")
    max_answer: int | None = option(None, "The most tokens of an answer, whatever a request asks for.", least=1)
    max_choices: int = option(16, "The most answers to one request (`n`).", least=1)
    max_images: int = option(8, "The most images of one request, if the model sees.", least=0)
    max_pixels: int = option(1 << 24, "The most pixels of an image.", least=1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ServeCommand(ServerOptions, LanguageOptions):
    """The flags of `mnnconvert llm serve`."""
