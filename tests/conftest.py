"""Settings of all tests."""

import os

from hypothesis import settings

# The same schemes on every machine, whatever a benchmark has measured there.
os.environ["MINNOW_CALIBRATION"] = "off"


# The same examples in every run, so that a change is judged by what it changes. To search further than that:
# ./dev test tests/optimizer --hypothesis-profile=search
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile("repeatable")
