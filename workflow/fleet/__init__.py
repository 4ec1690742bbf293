"""Many conversions on many machines: a plan becomes units, a scheduler runs them, a store keeps what they give.

A unit is the cells of one source that share reading and optimizing (`unit.py`). A worker looks into the store
first, and converts what is not there in a child process (`work.py`): so any process can be killed at any time, and the
next run goes on where this one has ended. Schedulers are the local pool (`minnow.workflow.schedule`) and Dask
(`cluster.py`).
"""
