"""Modules and exported programs of this process, saved as archives that the reader takes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minnow.schema.errors import UnsupportedError, UsageError


@contextmanager
def archived(
    source: Any, example_inputs: Sequence[Any] | Mapping[str, Any] | None, dynamic_shapes: Any = None
) -> Iterator[Path]:
    """The path of an archive or TorchScript file that holds the source; it goes when the block ends.

    Args:
        source: an `ExportedProgram`, a module of TorchScript, or any other `nn.Module`, which is exported first.
        example_inputs: of a module: its positional arguments, or its keyword arguments by name.
        dynamic_shapes: of a module: which dimensions stay dynamic, as `torch.export.export` takes it.

    Raises:
        UsageError: a module without example inputs. UnsupportedError: torch.export cannot export it.
    """
    import torch

    with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
        name = type(source).__name__
        if isinstance(source, torch.jit.ScriptModule):
            path = Path(folder) / f"{name}.pt"
            torch.jit.save(source, str(path))
            yield path
            return
        if isinstance(source, torch.nn.Module):
            if example_inputs is None:
                raise UsageError("exporting a module needs example inputs", where=name,
                                 hint="minnow.convert(module, example_inputs=(x,), output=...)")  # fmt: skip
            source = _exported(torch, source, example_inputs, dynamic_shapes)
        if not isinstance(source, torch.export.ExportedProgram):
            raise UsageError(f"a {name} is not a model", hint="give a path, a module, or an ExportedProgram")
        path = Path(folder) / f"{name}.pt2"
        try:
            torch.export.save(source, path)
        except Exception as e:
            raise UnsupportedError("torch.export cannot save the program", where=name, why=_first_line(e)) from e
        yield path


def is_scripted(source: Any) -> bool:
    """Whether the source is a module of TorchScript, which is not exported: its inputs are described instead."""
    import torch

    return isinstance(source, torch.jit.ScriptModule)


def _first_line(e: Exception) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0][:500]


def _exported(torch: Any, module: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    named = isinstance(example_inputs, Mapping)
    args = () if named else tuple(example_inputs) if isinstance(example_inputs, (list, tuple)) else (example_inputs,)
    was_training = module.training
    module.eval()
    try:
        return torch.export.export(module, args, dict(example_inputs) if named else None, dynamic_shapes=dynamic_shapes)
    except Exception as e:
        raise UnsupportedError("torch.export cannot export the module", where=type(module).__name__,
                               why=_first_line(e)) from e  # fmt: skip
    finally:
        module.train(was_training)
