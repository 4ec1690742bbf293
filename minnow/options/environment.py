"""The environment variables that Minnow reads, and the files it keeps beside those that a user names."""

from __future__ import annotations

from typing import NamedTuple


class Variable(NamedTuple):
    """An environment variable: its name, or how it is set, and what it does."""

    name: str
    meaning: str


VARIABLES = (
    Variable("MINNOW_ISA", "the instruction set to use, instead of the best one of the processor"),
    Variable(
        "MINNOW_CALIBRATION=off",
        "choose algorithms without the measurements that `mnnconvert benchmark` keeps for this machine",
    ),
    Variable(
        "MINNOW_BF16",
        "the bfloat16 unit to use with `--precision low` or `normal`: `amx`, `avx512`, `emulated` (for tests), `none`",
    ),
    Variable(
        "MINNOW_INT8",
        "the unit for products of 8-bit integers: `amx`, `avx512`, `avx_vnni`, `avx2`, `emulated` (for tests), `none`",
    ),
    Variable("MINNOW_BACKENDS", "a folder with libraries for devices, `libminnow_KIND.so`, besides the engine's own"),
    Variable(
        "MINNOW_PLUGINS",
        "libraries with kernels or devices of your own, as absolute paths separated by `:`; their code runs with the "
        "rights of the process",
    ),
    Variable(
        "MINNOW_PLACEMENT=greedy",
        "with `--device`, run each node on the device that can compute it, also where that takes longer (for tests)",
    ),
    Variable(
        "MINNOW_TUNING",
        "how many seconds a session may try kernels of a GPU in its first runs (1.5), or `off`; `Session.write_packed` "
        "keeps what it has chosen",
    ),
    Variable(
        "MINNOW_COMPILE",
        "which elementwise programs to compile for a CUDA device at run time, where NVRTC is found: `off`, `all`, or "
        "those of many elements (the default)",
    ),
    Variable(
        "MINNOW_GPU_SCHEMES=large", "compute small products on any GPU as large GPUs compute large ones (for tests)"
    ),
    Variable(
        "MINNOW_CUBLASLT",
        "folders with `libcublasLt.so`, separated by colons, where the system does not find it; it is optional: a "
        "session tries it beside Minnow's own kernels",
    ),
    Variable("MINNOW_API_KEY", "the key of `mnnconvert llm serve`, where the command line has none"),
    Variable("MINNOW_DEBUG=1", "show the Python traceback of an error on the command line"),
    Variable("NO_COLOR", "any value: no colors"),
    Variable(
        "FORCE_COLOR, CLICOLOR_FORCE", "any value but 0: colors also where the output is no terminal; NO_COLOR wins"
    ),
    Variable("TERM=dumb", "the terminal can neither show colors nor redraw a line"),
    Variable("CI", "any value but 0 and false: no line is redrawn, not even on a terminal"),
    Variable("XDG_CACHE_HOME", "the folder for what is kept of a machine, instead of `~/.cache`"),
    Variable("TMPDIR", "the folder for temporary files, instead of `/tmp`"),
)

FILES = (
    Variable("OUTPUT.weight", "the companion weights file of a large model, or with `--side-file`"),
    Variable("OUTPUT.packed", "the companion file with packed weights, with `--prepack`"),
    Variable(
        "~/.cache/minnow/roofline.json", "the throughput of this processor, as `mnnconvert benchmark` has measured it"
    ),
    Variable("~/.cache/minnow/kernels", "the machine code of kernels that were compiled for a CUDA device at run time"),
    Variable(
        "~/.cache/minnow/vulkan/*.bin, ~/.cache/minnow/opencl/*.bin",
        "kernels as the drivers of these GPUs have compiled them; they can be deleted at any time",
    ),
)
"""Files by name. Output is first written to a hidden file beside its target, with the suffix `.part`; what a
process that was killed has left is removed with the next output of that name."""
