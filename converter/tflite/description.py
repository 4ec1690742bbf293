"""What a TFLite file declares, without converting it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from minnow.converter.base import Description, Port
from minnow.converter.tflite.document import Document, Tensor, port_name


def describe(path: Path) -> Description:
    """Reads a file's declarations.

    Raises:
        FormatError, ModelError: not a TFLite file, or damaged.
    """
    document = Document(path)
    main = document.subgraphs[0]
    operators = Counter(o.op for graph in document.subgraphs for o in graph.operators)
    return Description(
        versions={"schema": document.version},
        producer=document.producer,
        operators=dict(operators.most_common()),
        inputs=[_port(main.tensors[i], k) for k, i in enumerate(main.inputs)],
        outputs=[_port(main.tensors[i], k) for k, i in enumerate(main.outputs)],
        size=path.stat().st_size,
    )


def _port(tensor: Tensor, position: int) -> Port:
    return Port(port_name(tensor, position), tensor.kind, list(tensor.shape))
