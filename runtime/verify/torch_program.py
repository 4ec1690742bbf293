"""Runs PyTorch models with PyTorch, in a separate process."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.inputs.given import Inputs
from minnow.schema.ir import DType, Model

Array = np.ndarray[Any, Any]


class TorchProgram:
    """A TorchScript file or an archive of torch.export."""

    def __init__(self, path: Path, model: Model, inputs: Any = None, trust: bool = False) -> None:
        """
        Args:
            inputs: what the model was read with: a number for each argument that is not an input of the graph.
            trust: code of the file may run; a TorchScript program consists of code.

        Raises:
            ModuleNotFoundError: PyTorch is not installed. RuntimeError: it cannot load the file.
        """
        if importlib.util.find_spec("torch") is None:
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        self._path = path.resolve()
        self._kind = model.source
        self._types = dict(model.user_inputs)
        self._outputs = list(model.user_outputs)
        given = {n: g.shape for n, g in Inputs.of(inputs).items() if n not in self._types}
        self._numbers = {n: shape[0] for n, shape in given.items() if shape and len(shape) == 1}
        self._trust = trust
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="minnow-")
        self.name = f"PyTorch {self._start()}"

    def _start(self) -> str:
        command = [sys.executable, "-m", "minnow.runtime.verify.torch_worker", str(self._path), self._kind]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # The working directory is an empty folder: nothing is imported from that of the user.
        self._process = subprocess.Popen([*command, *["trust"] * self._trust], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder.name,
                                         env=environment)  # fmt: skip
        return str(self._answer()["ready"])

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._process = None
            raise RuntimeError(f"the process that runs PyTorch ended with exit code {code}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"][:500])
        return answer

    def _ask(self, data: bytes = b"", **what: Any) -> dict[str, Any]:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n" + data)
            self._process.stdin.flush()
        except BrokenPipeError as e:
            self._process = None
            raise RuntimeError("the process that runs PyTorch has ended") from e
        return self._answer()

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()

    def reset(self) -> None:
        self._ask(reset=True)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self._run(inputs, False)

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        # For a model with states this would be the next run.
        return self._run(inputs, True)

    def _run(self, inputs: Mapping[str, Array], other: bool) -> dict[str, Array]:
        half = [n for n, t in self._types.items() if t.dtype is DType.BF16]
        arrays = {n: np.asarray(inputs[n], np.float32 if n in half else None) for n in self._types}
        given = io.BytesIO()
        np.savez(given, **arrays)  # type: ignore[arg-type]
        answer = self._ask(given.getvalue(), bytes=given.tell(), other=other, bfloat16=half, numbers=self._numbers)
        assert self._process is not None
        assert self._process.stdout is not None
        taken = self._process.stdout.read(answer["bytes"])
        if answer["count"] != len(self._outputs):
            raise RuntimeError(f"PyTorch gives {answer['count']} results, the model {len(self._outputs)}")
        with np.load(io.BytesIO(taken)) as found:
            return {
                name: found[f"arr_{i}"].astype(type.dtype.numpy) if type.dtype is DType.BF16 else found[f"arr_{i}"]
                for i, (name, type) in enumerate(self._outputs)
            }
