"""A step of a decoder with weights of 16, 8 and 4 bits on a device: milliseconds, and bytes of weights a second.

    python bench/gpu/quantized_decode.py check|time DEVICE [LAYERS]

The layers are those of a model of 8 billion weights, without attention: products of one row, SiLU and residuals.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "models"))
from wire_net import Net

import minnow

BLOCK = 128
RNG = np.random.default_rng(0)


def weights(n: int, k: int, bits: int, block: int, offsets: bool) -> dict[str, object]:
    rows, half = n * k // block, 1 << (bits - 1)
    head = bytes([2]) + np.array([rows, block], np.uint32).tobytes()
    table = bytes([2 * half % 256]) + np.arange(-half, half).astype(np.int8).tobytes()
    codes = RNG.integers(0, 256, n * k * bits // 8, dtype=np.uint8).tobytes()
    # Of 2 and 3 bits the codes' mean is not near 0, and sums of rows would overflow float16.
    scale = (RNG.uniform(0.5, 1.5, rows) * (1.7 if bits > 3 else 0.4) / half / np.sqrt(k)).astype(np.float32)
    alpha = np.stack([-half * scale * 0.9, scale], 1).reshape(-1).astype(np.float32) if offsets else scale
    return {"type": 1, "buffer": np.frombuffer(head + table + codes, np.int8), "aMaxOrBits": bits, "quantScale": 1.0,
            "aMin": -half if offsets else 0, "readType": rows if offsets else 0, "shapeInt32": True,
            "alpha": alpha}  # fmt: skip


def model(layers: int, d: int, ff: int, kv: int, bits: int, rows: int = 1, block: int = BLOCK,
          offsets: bool = False) -> tuple[bytes, int]:  # fmt: skip
    """A file, and the number of its weights."""
    net, count = Net(), 0
    x = net.input("x", (rows, d, 1, 1))

    def product(x: str, n: int, k: int, name: str) -> str:
        nonlocal count
        count += n * k
        common = {"kernelX": 1, "kernelY": 1, "outputCount": n, "inputCount": k}
        if bits == 16:
            halves = (RNG.standard_normal(n * k, dtype=np.float32) / np.sqrt(k)).astype(np.float16)
            quan: dict[str, object] = {"type": 3, "buffer": halves.view(np.int8), "quantScale": 1.0}
        else:
            quan = weights(n, k, bits, block, offsets)
        main = {"common": common, "bias": np.zeros(n, np.float32), "quanParameter": quan}
        return net.op("Convolution", [x], [name], "Convolution2D", main)[0]

    def binary(kind: int, a: str, b: str, name: str) -> str:
        return net.op("BinaryOp", [a, b], [name], "BinaryOp", {"opType": kind, "T": "DT_FLOAT"})[0]

    for i in range(layers):
        q, k, v = (product(x, n, d, f"{i}{s}") for s, n in (("q", d), ("k", kv), ("v", kv)))
        net.op("Concat", [k, v, *[k, v] * (d // kv // 2 - 1)], [f"{i}kv"], "Axis", {"axis": 1})
        x = binary(0, x, product(binary(0, q, f"{i}kv", f"{i}qkv"), d, d, f"{i}o"), f"{i}r")
        gate, up = product(x, ff, d, f"{i}g"), product(x, ff, d, f"{i}u")
        (s,) = net.op("Sigmoid", [gate], [f"{i}s"])
        m = binary(2, binary(2, gate, s, f"{i}silu"), up, f"{i}m")
        x = binary(0, x, product(m, d, ff, f"{i}d"), f"{i}y")
    return net.bytes(x), count


def check(device: str) -> None:
    for bits in (2, 3, 4, 5, 6, 7, 8):
        for offsets in (False, True):
            for rows in (1, 3, 8, 9, 40):
                for block in (32, 128, 48):
                    k = 384
                    file, _ = model(1, k, 768, 64, bits, rows, block, offsets)
                    x = RNG.standard_normal((rows, k, 1, 1), dtype=np.float32)
                    want = next(iter(minnow.load(file).run({"x": x}).values()))
                    for precision in ("high", "normal", "low"):
                        session = minnow.load(file, device=device, precision=precision)
                        got = next(iter(session.run({"x": x}).values()))
                        error = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
                        limit = {"high": 1e-5, "normal": 2e-3, "low": 3e-2}[precision]
                        if not error < limit:
                            print("WRONG", bits, offsets, rows, block, precision, error)
                            print([(r["op"], r["scheme"]) for r in session.profile({"x": x}, runs=1)][:4])
    print("checked")


def clock(device: str, layers: int) -> None:
    for bits in (16, 8, 4):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.mnn")
            file, count = model(layers, 4096, 14336, 1024, bits)
            Path(path).write_bytes(file)
            start = time.perf_counter()
            session = minnow.load(path, device=device, precision="low")
            x = {"x": RNG.standard_normal((1, 4096, 1, 1), dtype=np.float32)}
            for _ in range(30):
                session.run(x)
            loaded = time.perf_counter() - start
            times = []
            for _ in range(100):
                start = time.perf_counter()
                session.run(x)
                times.append(time.perf_counter() - start)
            ms = 1e3 * float(np.median(times))
            size = count * bits / 8 + (4 * count / BLOCK if bits < 16 else 0)
            print(f"bits {bits}: {ms:.3f} ms, {1e3 * ms / layers:.0f} us a layer, "
                  f"{size / ms / 1e9:.2f} TB/s of {size / 1e6:.0f} MB of weights, first {loaded:.1f} s")  # fmt: skip
            rows = session.profile(x, runs=20)
            print([(r["op"], r["scheme"], r["shape"], round(1e3 * r["ms"], 1), r["device"]) for r in rows][:14])


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        clock(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2)
