"""Conditionals of TensorFlow 1 (Switch and Merge) as If and Case with bodies of their own.

A node that depends on an output of a Switch runs only where the switch sends its value that way: this is its guard. A
Merge joins values with different guards; what bears one of them, and the merge needs, becomes a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value

Guard = dict[Port, int]  # where each of several predicates sends its values
_MAX_DEPTH = 40
_SWITCHES = ("Switch", "RefSwitch", "_SwitchN")


def structure_branches(body: Body, given: Iterable[Port] = ()) -> Body:
    """The body with If and Case in the place of switches and merges. Raises ModelError when they do not fit."""
    if not any(o.op in _SWITCHES or o.op.endswith("Merge") for o in body.operations.values()):
        return body
    return _Branches(body, set(given)).structured()


class _Branches:
    def __init__(self, body: Body, given: set[Port]) -> None:
        self.body = body
        self.given = given
        self.operations = body.operations
        self.order = body.ordered(dict.fromkeys(body.operations), set())
        self.position = {n: i for i, n in enumerate(self.order)}
        self.switches: dict[Port, str] = {}  # a kind of switch, by predicate
        self.guards: dict[str, Guard] = {}
        self.choices: dict[str, tuple[Port, dict[int, int]]] = {}  # per Merge its predicate, and input per branch
        for name in self.order:
            self.guards[name] = self._guard_of(self.operations[name])
            if self._is_switch(name):
                self.switches[self._predicate(name)] = self.operations[name].op
        self.traced = {p.node for o in self.operations.values() for p in o.inputs if p.output == 1}
        self.traced |= {p.node for p in body.results if p.output == 1}

    def structured(self) -> Body:
        operations = self._level(self.body.results, self.body.effects, {}, {}, 0)
        return replace(self.body, operations=operations)

    # ---- guards

    def _is_switch(self, name: str) -> bool:
        return name in self.operations and self.operations[name].op in _SWITCHES

    def _is_merge(self, name: str) -> bool:
        return name in self.operations and self.operations[name].op in ("Merge", "RefMerge")

    def _predicate(self, switch: str) -> Port:
        port = self.operations[switch].inputs[1]
        while port not in self.given and port.node in self.operations and self.operations[port.node].op == "Identity":
            port = self.operations[port.node].inputs[0]
        return port

    def _guard(self, port: Port) -> Guard:
        if port in self.given:
            return {}
        guard = self.guards.get(port.node, {})
        return {**guard, self._predicate(port.node): port.output} if self._is_switch(port.node) else guard

    def _guard_of(self, operation: Operation) -> Guard:
        if operation.op in ("Merge", "RefMerge"):
            return self._guard_of_merge(operation)
        if operation.op in _SWITCHES and len(operation.inputs) != 2:
            raise ModelError("a Switch needs a value and a predicate", where=operation.name)
        out: Guard = {}
        for port in operation.inputs:
            out |= self._guard(port)
        for name in operation.controls:
            # What waits for a Switch waits for either way.
            out |= self.guards.get(name, {})
        return out

    def _guard_of_merge(self, merge: Operation) -> Guard:
        guards = [self._guard(p) for p in merge.inputs]
        for predicate in dict.fromkeys(p for g in guards for p in g):
            branches = [g.get(predicate) for g in guards]
            known = [k for k in branches if k is not None]
            # One of them may be a constant that an optimizer has moved out of its branch.
            if len(set(known)) != len(known) or len(guards) - len(known) > (len(guards) > 1):
                continue
            if max(known) >= len(guards):
                continue
            missing = next((k for k in range(len(guards)) if k not in known), 0)
            at = {missing if k is None else k: i for i, k in enumerate(branches)}
            self.choices[merge.name] = (predicate, at)
            told = [g for g, k in zip(guards, branches, strict=True) if k is not None]
            shared = {p: k for p, k in told[0].items() if p != predicate and all(g.get(p) == k for g in told)}
            return shared
        if len(merge.inputs) == 1:
            self.choices[merge.name] = (Port(""), {0: 0})
            return guards[0]
        raise ModelError("a Merge does not belong to any Switch", where=merge.name)

    # ---- bodies

    def _follow(self, port: Port, assumed: Guard) -> Port:
        """The tensor that a port is, where predicates are known."""
        while port not in self.given:
            if self._is_switch(port.node):
                if assumed.get(self._predicate(port.node), port.output) != port.output:
                    raise ModelError("a branch reads a value that only the other branch computes", where=port.node)
                port = self.operations[port.node].inputs[0]
            elif self._is_merge(port.node) and port.output == 0:
                predicate, at = self.choices[port.node]
                if len(at) == 1:
                    port = self.operations[port.node].inputs[0]
                elif assumed.get(predicate) in at:
                    port = self.operations[port.node].inputs[at[assumed[predicate]]]
                else:
                    return port
            else:
                return port
        return port

    def _is_outside(self, port: Port, assumed: Guard) -> bool:
        """Whether a tensor is computed in front of the innermost branch."""
        if not assumed:
            return False
        predicate, k = next(reversed(assumed.items()))
        return port in self.given or self.guards.get(port.node, {}).get(predicate) != k

    def _captured(self, roots: Iterable[Port], assumed: Guard) -> dict[Port, None]:
        """What a branch reads of what is in front of it."""
        out: dict[Port, None] = {}
        seen: set[str] = set()
        todo = list(roots)
        while todo:
            port = self._follow(todo.pop(), assumed)
            if self._is_outside(port, assumed):
                out[port] = None
            elif port.node not in seen:
                seen.add(port.node)
                operation = self.operations[port.node]
                todo += operation.inputs
                if operation.name in self.choices:
                    todo.append(self.choices[operation.name][0])
        return dict.fromkeys(sorted(out))

    def _level(
        self, results: Sequence[Port], effects: Sequence[str], assumed: Guard, arguments: Mapping[Port, str], depth: int
    ) -> dict[str, Operation]:
        """The nodes of one body: those that its results need and that no inner branch holds."""
        if depth > _MAX_DEPTH:
            raise ModelError("branches are nested too deeply", where=self.body.name, why=f"the limit is {_MAX_DEPTH}")
        needs: dict[str, list[Port]] = {}
        todo = [*results, *map(Port, effects)]
        while todo:
            port = todo.pop()
            if not (self._is_switch(port.node) and port in results and not assumed):
                port = self._follow(port, assumed)
            if port in self.given or port.node not in self.operations or port.node in needs:
                continue
            if self._is_outside(port, assumed):
                continue
            operation = self.operations[port.node]
            found = list(operation.inputs[:1] if self._is_switch(port.node) else operation.inputs)
            if operation.name in self.choices:
                predicate, at = self.choices[operation.name]
                inner = (self._captured([operation.inputs[i]], {**assumed, predicate: k}) for k, i in at.items())
                found = [predicate, *dict.fromkeys(p for captured in inner for p in captured)]
            needs[operation.name] = found
            todo += found

        def here(port: Port) -> Port:
            port = self._follow(port, assumed)
            return Port(arguments[port]) if port in arguments else port

        ranks: dict[str, int] = {}
        groups: dict[tuple[Port, int], list[str]] = {}
        made: dict[str, Operation] = {}
        for name in sorted(needs, key=self.position.__getitem__):
            before = (ranks.get(self._follow(p, assumed).node, 0) for p in needs[name])
            ranks[name] = max(before, default=0) + (name in self.choices)
            operation = self.operations[name]
            if name in self.choices:
                groups.setdefault((self.choices[name][0], ranks[name]), []).append(name)
            elif self._is_switch(name):
                made[name] = Operation(name, "IdentityN", [here(operation.inputs[0])] * 2)
            else:
                made[name] = replace(operation, inputs=[here(p) for p in operation.inputs])
        for (predicate, _), merges in groups.items():
            branch = self._branch(predicate, merges, assumed, depth)
            branch = replace(branch, inputs=[here(p) for p in branch.inputs])
            made[branch.name] = branch
            for i, name in enumerate(merges):
                made[name] = Operation(name, "IdentityN", [Port(branch.name, 2 * i), Port(branch.name, 2 * i + 1)])
                if name not in self.traced:
                    made[name].inputs.pop()
        return made

    def _branch(self, predicate: Port, merges: Sequence[str], assumed: Guard, depth: int) -> Operation:
        """The If or Case that gives the values of these merges, and which of their inputs was taken."""
        name = f"{merges[0]}/branches"
        count = len(self.choices[merges[0]][1])
        inner: list[tuple[list[Port], Guard, dict[Port, None]]] = []
        for k in range(count):
            known = {p: v for p, v in assumed.items() if p != predicate} | {predicate: k}
            roots = [self.operations[m].inputs[self.choices[m][1][k]] for m in merges]
            inner.append((roots, known, self._captured(roots, known)))
        captured = {p: str(p) for p in dict.fromkeys(p for _, _, outside in inner for p in outside)}
        bodies = []
        for k, (roots, known, _) in enumerate(inner):
            operations = self._level(roots, (), known, captured, depth + 1)
            results = []
            for merge, root in zip(merges, roots, strict=True):
                port = self._follow(root, known)
                number = Operation(f"{merge}/index", "Const", [])
                at = np.array(self.choices[merge][1][k], np.int32)
                number.attrs = {"value": Value.constant(at, number.name)}
                operations[number.name] = number
                results += [Port(captured[port]) if port in captured else port, Port(number.name)]
            bodies.append(Body(f"{name}/{k}", list(captured.values()), operations, results, [], self.body.bound))
        inputs = [predicate, *captured]
        if self.switches[predicate] == "_SwitchN":
            return Operation(name, "Case", inputs, [], {"branches": tuple(bodies)})
        return Operation(name, "If", inputs, [], {"then_branch": bodies[1], "else_branch": bodies[0]})
