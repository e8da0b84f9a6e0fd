"""`python -m benchmarks.router.memory`: what open connections and streams cost a router in memory.

Each row has a new process. Idle connections are those of clients that keep them alive between two
requests. Memory does not depend on the speed of the machine, so other work beside it does no harm.
"""

import argparse
import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.router import generator
from benchmarks.router.cores import Cores
from benchmarks.router.generator import Load
from benchmarks.router.targets import (
    Target,
    install_vllm_router,
    tandem_router,
    upstream,
    vllm_router,
)

IDLE = (1_000, 10_000)
STREAMS = (100, 1_000, 4_000)
_AT_ONCE = 200
_LOOK_S = 0.2
_REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"

Start = Callable[[Target], AbstractContextManager[Target]]


@dataclass(frozen=True, slots=True)
class Row:
    """The memory of one router before and under a load.

    Attributes:
        count: idle connections, or streams that are open at a time.
        failed: requests without a whole answer.
    """

    router: str
    what: str
    count: int
    before_mib: float
    most_mib: float
    failed: int

    @property
    def each_kib(self) -> float:
        """Return the memory that one connection or stream adds."""
        return 1024 * (self.most_mib - self.before_mib) / self.count


@contextlib.contextmanager
def most_mib(target: Target) -> Iterator[list[float]]:
    """Yield a list whose only item is the most memory that the process had inside the block."""
    found, over = [target.rss_mib()], threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            found[0] = max(found[0], target.rss_mib())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield found
    finally:
        over.set()
        watch.join()


async def hold(port: int, count: int) -> int:
    """Open connections, ask for the models on each, and hold all; return how many failed."""
    open_: list[asyncio.StreamWriter] = []
    few = asyncio.Semaphore(_AT_ONCE)

    async def one() -> bool:
        async with few:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            open_.append(writer)
            writer.write(_REQUEST)
            return b" 200 " in await reader.readline()

    answered = await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)
    await asyncio.sleep(2 * _LOOK_S)
    for writer in open_:
        writer.close()
    return count - sum(each is True for each in answered)


def idle(target: Target, count: int) -> Row:
    """Measure idle connections."""
    before = target.rss_mib()
    with most_mib(target) as most:
        failed = asyncio.run(hold(target.port, count))
    return Row(target.name, "idle connections", count, before, most[0], failed)


def streams(target: Target, count: int, *, program: Path, cores: Cores) -> Row:
    """Measure streams with a token every four seconds."""
    load = Load(streams=count, tokens=7, gap_s=4.0, ramp_s=max(2.0, count / 50), window_s=8.0)
    before = target.rss_mib()
    with most_mib(target) as most:
        result = generator.run(
            load,
            program=program,
            cores=cores.load,
            pid=target.pid,
            port=target.port,
            prefill_port=target.prefill_port,
        )
    return Row(target.name, "streams", count, before, most[0], result.failed)


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| router | load | before | most | each | failed |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.router} | {row.count:,} {row.what} | {row.before_mib:.0f} MiB"
        f" | {row.most_mib:.0f} MiB | {row.each_kib:.1f} KiB | {row.failed} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.router.memory", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/router"))
    parser.add_argument("--no-vllm-router", action="store_true", help="measure ours only")
    arguments = parser.parse_args()
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    program, cores = generator.build(), Cores.here()
    starts: list[Start] = [lambda engine: tandem_router(engine, folder, cores=cores)]
    if not arguments.no_vllm_router:
        executable = install_vllm_router(folder)
        starts.append(
            lambda engine: vllm_router(engine, folder, cores=cores, executable=executable)
        )
    loads: list[Callable[[Target], Row]] = [
        *(lambda target, count=count: idle(target, count) for count in IDLE),
        *(
            lambda target, count=count: streams(target, count, program=program, cores=cores)
            for count in STREAMS
        ),
    ]
    rows = []
    for start in starts:
        for load in loads:
            with upstream(program, folder, cores=cores) as engine, start(engine) as target:
                rows.append(load(target))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    (folder / "memory.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main()
