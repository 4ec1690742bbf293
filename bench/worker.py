"""The harness's worker for Minnow: host arrays in, host arrays out."""

from common import Worker, main  # isort: skip  (first: it takes stdout for the protocol)

import minnow

_load = minnow.load  # imports what it needs now, as the others' workers do: before the clock runs


class Minnow(Worker):
    name = "minnow"

    def load(self, spec):
        self.session = _load(spec["files"]["model"], threads=spec["threads"], precision=spec["config"]["precision"])
        return {"version": minnow.__version__}

    def step(self):
        self.results = self.session.run(self.inputs)

    def outputs(self):
        return list(self.results.values())


main(Minnow)
