"""What connections and streams cost a router in memory."""

import os
import time

from benchmarks.router.memory import Row, most_mib, table
from benchmarks.router.targets import Target


def test_a_row_says_what_each_connection_adds() -> None:
    row = Row("ours", "idle connections", 1024, before_mib=50.0, most_mib=58.0, failed=0)

    assert row.each_kib == 8.0
    assert table([row]).splitlines()[-1] == (
        "| ours | 1,024 idle connections | 50 MiB | 58 MiB | 8.0 KiB | 0 |"
    )


def test_the_most_memory_inside_the_block_counts() -> None:
    target = Target("this process", 0, os.getpid())
    before = target.rss_mib()

    with most_mib(target) as most:
        taken = bytearray(os.urandom(64 * 2**20))
        deadline_s = time.monotonic() + 60.0
        while most[0] < before + 32.0 and time.monotonic() < deadline_s:
            time.sleep(0.05)

    assert len(taken) == 64 * 2**20
    assert most[0] >= before + 32.0
