"""Products with packed weights beside onnxruntime; and that the file keeps them packed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import onnx
import pytest
from onnx_contrib import Case, assert_same, engine_runs, judge, onnxruntime_runs

from minnow.converter import read
from minnow.optimizer import optimize

RNG = np.random.default_rng(3)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def few_bits() -> list[Case]:
    def case(
        *shape: int,
        n: int = 7,
        k: int = 32,
        bits: int = 4,
        block: int = 16,
        zeros: str = "",
        bias: bool = False,
        dtype: Any = np.float32,
        groups: Any = None,
        **attrs: Any,
    ) -> Case:
        blocks = -(-k // block)
        zero = None
        if zeros == "packed":
            zero = u8(n, -(-blocks * bits // 8))
        elif zeros:
            zero = (RNG.random((n, blocks)) * (1 << bits)).astype(dtype)
        inputs = [
            f32(*shape, k).astype(dtype),
            u8(n, blocks, block * bits // 8),
            (0.01 + np.abs(f32(n, blocks)) / (1 << bits)).astype(dtype),
            zero,
            groups,
            f32(n).astype(dtype) if bias else None,
        ]
        while inputs[-1] is None:
            inputs.pop()
        attrs = {"K": k, "N": n, "bits": bits, "block_size": block} | attrs
        return Case(
            "MatMulNBits",
            inputs,
            attrs,
            constant=[1, 2, 3, 4, 5],
            named=len(shape) < 3,
            close=2e-2 if dtype is np.float16 else 1e-4,
        )

    return [
        *(case(2, 3, bits=bits, zeros=zeros) for bits in (2, 4, 8) for zeros in ("", "packed")),
        *(case(2, 3, bits=bits, zeros="float") for bits in (2, 4)),
        case(5),
        case(1, 1, 3, k=64, block=32, bias=True, zeros="packed"),
        case(2, 3, k=48, block=16, n=1, zeros="packed"),
        case(2, 3, k=40, block=16, zeros="packed"),
        case(3, k=19, block=16, bias=True),
        case(2, 3, k=256, block=128, n=33, bias=True),
        case(2, 3, groups=np.array([0, 1] * 16, np.int32)),
        case(2, 3, dtype=np.float16, zeros="packed", bias=True),
        case(2, 3, dtype=np.float16),
        case(0, 3),
        case(2, 3, accuracy_level=1),
    ]  # fmt: skip


def others() -> list[Case]:
    def bnb(kind: int, n: int, k: int, block: int) -> Case:
        inputs = [f32(2, 3, k), u8((n * k + 1) // 2), np.abs(f32(-(-n * k // block)))]
        attrs = {"K": k, "N": n, "block_size": block, "quant_type": kind}
        return Case("MatMulBnb4", inputs, attrs, constant=[1, 2], close=1e-4)

    def gather(bits: int, zeros: bool, block: int = 16, width: int = 64, dtype: Any = np.float32) -> Case:
        inputs = [u8(11, width * bits // 8), RNG.integers(0, 11, (2, 3)), f32(11, -(-width // block)).astype(dtype)]
        inputs += [u8(11, -(-width // block) * bits // 8)] if zeros else []
        attrs = {"bits": bits, "block_size": block}
        return Case(
            "GatherBlockQuantized", inputs, attrs, constant=[0, 2, 3], close=2e-3 if dtype is np.float16 else 1e-5
        )

    return [
        *(bnb(kind, n, k, block) for kind in (0, 1) for n, k, block in ((5, 32, 16), (3, 24, 16), (1, 64, 64))),
        *(gather(bits, zeros) for bits in (4, 8) for zeros in (False, True)),
        gather(4, True, dtype=np.float16),
    ]  # fmt: skip


@pytest.mark.parametrize("case", [*few_bits(), *others()], ids=str)
def test_agrees_with_onnxruntime(case: Case, tmp_path: Path) -> None:
    judge(case, tmp_path)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_stay_packed_in_the_file(bits: int, tmp_path: Path) -> None:
    n, k, block = 256, 512, 32
    inputs = [f32(1, 3, k), u8(n, k // block, block * bits // 8), f32(n, k // block)]
    case = Case("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block}, constant=[1, 2], close=1e-3)
    judge(case, tmp_path)
    assert (tmp_path / "m.mnn").stat().st_size < n * k * bits // 8 + 4 * n * k // block + 8192


def test_weights_stay_packed_under_factors_that_are_fused_into_them(tmp_path: Path) -> None:
    n, k = 256, 512
    node = Case("MatMulNBits", [f32(1, 3, k), u8(n, k // 32, 16), f32(n, k // 32)], {"K": k, "N": n, "block_size": 32},
                constant=[1, 2])  # fmt: skip
    model, feed = node.model()
    model.graph.node[0].output[0] = "product"
    model.graph.node.append(onnx.helper.make_node("Mul", ["product", "factor"], ["out0"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(-2.5), "factor"))
    assert_same(engine_runs(model, feed, tmp_path), onnxruntime_runs(model, feed), replace(node, close=2e-3))
    assert (tmp_path / "m.mnn").stat().st_size < n * k // 2 + 4 * n * k // 32 + 8192


@mnn_oracle.needs_mnn
def test_other_runtimes_of_the_format_read_the_packed_weights(tmp_path: Path) -> None:
    cases = [replace(c, named=False) for c in few_bits() if c.inputs[0].dtype == np.float32 and c.inputs[0].size]
    jobs, expected = [], []
    for i, case in enumerate(cases):
        model, feed = case.model()
        onnx.save(model, str(tmp_path / f"{i}.onnx"))
        read_model = read(tmp_path / f"{i}.onnx")
        optimize(read_model, 2)
        jobs.append(mnn_oracle.Job(read_model, feed))
        expected.append(onnxruntime_runs(model, feed))
    for case, answer, want in zip(cases, mnn_oracle.run(jobs, tmp_path / "jobs"), expected, strict=True):
        assert answer.outputs, answer.log
        assert_same(answer.outputs, want, case)
