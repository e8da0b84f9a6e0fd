"""Commands of `python -m e2e.cluster` that run beside others."""

import subprocess

import pytest

from e2e.demo.setup import cluster_beside


def test_a_command_that_failed_beside_the_others_is_not_taken_for_done():
    with (
        cluster_beside("no-such-command") as finish,
        pytest.raises(subprocess.CalledProcessError, match="no-such-command"),
    ):
        finish()
