"""Refuses to run TensorFlow models with side effects: TensorFlow's operators can write files and run programs.

A conversion ignores control dependencies and the operators that load a model; TensorFlow would run them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from minnow.converter.tensorflow.frontend import frontend
from minnow.schema.errors import UnsupportedError

_LOADING = frozenset({
    "Assign", "AssignVariableOp", "Const", "Identity", "IdentityN", "NoOp", "Pack", "Placeholder",
    "PlaceholderWithDefault", "ReadVariableOp", "RestoreV2", "ShardedFilename", "StringJoin", "VarHandleOp",
    "VarIsInitializedOp", "Variable", "VariableV2",
})  # fmt: skip
"""Operators that initialize variables: they read files of the model, and write none."""
_STREAMS = re.compile(rb"|stdout|stderr|log\((info|warning|error)\)")
_INITIALIZERS = ("_create_resource", "_initializer", "_destroy_resource")
_INITIALIZER_COLLECTIONS = ("saved_model_main_op", "legacy_init_op", "saved_model_initializers")


def check_frozen(graph: Any, outputs: Iterable[str], where: str) -> None:
    """Raises UnsupportedError if the graph runs an operator with side effects for these outputs."""
    _check(graph, map(_node, outputs), (), where)


def check_saved_model(meta: Any, where: str) -> None:
    """Raises UnsupportedError if loading or calling a SavedModel runs an operator with side effects."""
    roots = [info.name for s in meta.signature_def.values() for info in s.outputs.values()]
    roots.append(meta.saver_def.restore_op_name)
    for name in _INITIALIZER_COLLECTIONS:
        if name in meta.collection_def:
            roots += meta.collection_def[name].node_list.value
    graph = meta.object_graph_def
    functions = []
    for child in (c for node in graph.nodes for c in node.children if c.local_name in _INITIALIZERS):
        if not 0 <= child.node_id < len(graph.nodes):
            raise _refused("a function that does not exist", where)
        called = graph.nodes[child.node_id]
        functions += called.function.concrete_functions
        functions.append(called.bare_concrete_function.concrete_function_name)
    _check(meta.graph_def, map(_node, roots), filter(None, functions), where)


def _node(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _check(graph: Any, roots: Iterable[str], functions: Iterable[str], where: str) -> None:
    nodes = {n.name: n for n in graph.node}
    library = {f.signature.name: f for f in graph.library.function}
    todo, called = list(roots), list(functions)
    seen, entered = set[str](), set[str]()
    while todo or called:
        if called:
            name = called.pop()
            if name in library and name not in entered:
                entered.add(name)
                for node in library[name].node_def:
                    called += _look_at(node, library, where)
            continue
        name = todo.pop()
        if name in nodes and name not in seen:
            seen.add(name)
            called += _look_at(nodes[name], library, where)
            todo += map(_node, nodes[name].input)


def _look_at(node: Any, library: Any, where: str) -> Iterator[str]:
    """The functions that a node calls. Raises UnsupportedError if the node has side effects."""
    if node.op in library:
        yield node.op
    elif node.op not in _LOADING and frontend.find(node.op, 1) is None and node.op not in frontend.pairs:
        raise _refused(f"{node.op}, at '{node.name}'", where)
    if "output_stream" in node.attr and not _STREAMS.fullmatch(node.attr["output_stream"].s):
        raise _refused(f"{node.op} into {node.attr['output_stream'].s[:80]!r}, at '{node.name}'", where)
    for value in node.attr.values():
        for function in (value.func, *value.list.func):
            if function.name:
                yield function.name


def _refused(what: str, where: str) -> UnsupportedError:
    return UnsupportedError(
        "the model is not run in TensorFlow for comparison, because it may have side effects",
        where=where,
        why=f"it runs {what}",
        hint="`--no-verify` converts it without running it; or export it without operators for training and logging",
    )
