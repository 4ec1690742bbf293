"""Times networks of nets.py on the GPU, in Minnow and in torch.compile, in turns:

    python bench/gpu/prepare.py FOLDER resnet50:1 resnet50:32
    python bench/gpu/compare.py FOLDER resnet50:1 resnet50:32 [--eager] [--precision low]

Both read and write the same tensors in the GPU's memory each time. A sample is one run, from the call until the GPU has
finished. PyTorch runs in f16 with channels last, compiled in its default mode, as a CUDA graph that is replayed; Minnow
as `Session.bind` has it. A ratio below 1: Minnow is faster. In brackets: `Session.run`, which gives new outputs each
time. The results of both are compared, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from nets import make

import minnow


def graph_of(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Callable[[], None], Any]:
    """A function that replays it as a CUDA graph, and the tensor with its result."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(4):
            function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = function(*inputs)

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay, result


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def used() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def on_gpu(x: torch.Tensor) -> torch.Tensor:
    """A copy in memory that PyTorch shares with no other tensor, as it does not with what is larger than 10 MiB."""
    memory = torch.empty(max(x.nbytes, 16 << 20), dtype=torch.uint8, device="cuda")
    copy = memory[: x.nbytes].view(x.dtype).view(x.shape)
    return copy.copy_(x)


def compare(folder: Path, name: str, batch: int, given: argparse.Namespace) -> str:
    module, inputs = make(name, batch)
    with torch.no_grad():
        want = module(*inputs)
    given_inputs = [on_gpu(x) for x in inputs]  # the caller's: no part of what Minnow takes
    torch.cuda.synchronize()
    before = used()
    start = time.perf_counter()
    session = minnow.load(folder / f"{name}_{batch}.mnn", device="cuda", precision=given.precision)
    ours = {i.name: x for i, x in zip(session.inputs, given_inputs, strict=True)}

    def anew() -> Any:
        return session.run(ours, device_outputs=True)

    run = session.bind(ours, device_outputs=True).run
    result = run()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    for _ in range(20):
        result = run()
    memory = used() - before
    got = torch.from_dlpack(next(iter(result.values()))).float().cpu()
    scale = want.abs().max().item()
    error = (got - want).abs().max().item() / scale

    before = used()
    start = time.perf_counter()
    module = module.cuda()
    theirs = tuple(x.cuda() for x in inputs)
    if given.precision == "low":
        module = module.half()
        theirs = tuple(x.half() if x.is_floating_point() else x for x in theirs)
    if theirs[0].dim() == 4:
        module = module.to(memory_format=torch.channels_last)
        theirs = tuple(x.contiguous(memory_format=torch.channels_last) for x in theirs)
    torch._dynamo.reset()
    replay, output = graph_of(module if given.eager else torch.compile(module), theirs)
    replay()
    compiled = time.perf_counter() - start
    torch.cuda.empty_cache()
    their_memory = used() - before
    their_error = (output.float().cpu() - want).abs().max().item() / scale
    for _ in range(20):
        run()
        replay()
        anew()
    times: tuple[list[float], ...] = ([], [], [])
    for _ in range(given.samples):
        for samples, function in zip(times, (run, replay, anew), strict=True):
            samples.append(seconds(function))
    own, peer, own_anew = map(statistics.median, times)
    columns = [
        f"{name} {batch}",
        f"{1e3 * own:.3f} ({1e3 * own_anew:.3f})",
        f"{1e3 * peer:.3f}",
        f"{own / peer:.2f}",
        f"{first:.2f} / {compiled:.1f} s",
        f"{memory >> 20} / {their_memory >> 20} MiB",
        f"{error:.1e} / {their_error:.1e}",
    ]
    return " | ".join(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--eager", action="store_true", help="PyTorch without torch.compile")
    parser.add_argument("--precision", default="low")
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args()
    print("network, batch | minnow ms | torch ms | ratio | to the first result | memory | largest error")
    for job in given.jobs:
        name, batch = job.split(":")
        try:
            print(compare(given.folder, name, int(batch), given), flush=True)
        except Exception:  # noqa: BLE001  (the others are to be timed all the same)
            print(f"{name} {batch}: failed")
            traceback.print_exc(limit=4)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
