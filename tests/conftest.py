"""Settings of all tests."""

import gc
import os

import gpu_drivers
import pytest
import sampling
from hypothesis import HealthCheck, settings
from proving import check_every_step

from minnow.converter.file import door

# The same schemes on every machine, whatever a benchmark has measured there.
os.environ["MINNOW_CALIBRATION"] = "off"


# The same examples in every run, so that a change is judged by what it changes. To search further than that:
# ./dev test tests/optimizer --hypothesis-profile=search
# How fast examples are made says something of the machine only, which others may be using.
settings.register_profile("repeatable", derandomize=True, suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.register_profile("search", print_blob=True)
settings.load_profile("repeatable")


# What a valid file breaks in a reader is a defect, which must not look like a damaged file.
door.strict = True

# Before any test can ask for `optimize`.
check_every_step()


def pytest_configure(config: pytest.Config) -> None:
    gpu_drivers.choose(config.args, config.invocation_params.dir)
    sampling.configure(config)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sampling.mark(items)


def pytest_collection_finish() -> None:
    """The garbage collector need not go through a million objects of tests and packages again and again."""
    gc.collect()
    gc.freeze()
