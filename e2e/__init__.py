"""End-to-end parts: a local cluster, its images, the demo and the tests that run on it."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this may be any python3, before one is installed.
    sys.exit(f"Python 3.11 or newer is needed; `python3` is {sys.version.split()[0]}.")
