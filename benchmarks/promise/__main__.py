"""Is the promise kept, and at what cost: `python -m benchmarks.promise --quick`.

Finished runs are kept in the user's cache. A change of the core makes only Tandem's runs anew.
"""

import argparse
import time
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.promise.contenders import POLICIES
from benchmarks.promise.kept import CACHE
from benchmarks.promise.quick import QUICK
from benchmarks.promise.tables import HEAD, line
from benchmarks.promise.work import Job, all_of

QUICK_POLICIES = "tandem,hold,fixed,clairvoyant"


def main() -> None:
    """Print a line per case as it ends."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="sixteen cases, some minutes")
    parser.add_argument("--only", metavar="GLOB", default="*", help="cases of these names alone")
    parser.add_argument(
        "--policy",
        metavar="NAME,NAME",
        default=QUICK_POLICIES,
        help=f"of {', '.join(POLICIES)}; {QUICK_POLICIES} if left out",
    )
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are kept")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="where public traces are")
    options = parser.parse_args()
    policies = tuple(options.policy.split(","))
    unknown = set(policies) - set(POLICIES)
    if unknown:
        parser.error(f"--policy {', '.join(sorted(unknown))}: take some of {', '.join(POLICIES)}")
    began_s = time.monotonic()
    chosen = [case for case in QUICK if fnmatch(case.name, options.only)]
    jobs = [Job(case, policies, options.cache, options.traces) for case in chosen]
    print(HEAD, flush=True)
    for done in all_of(jobs, processes=options.processes):
        print(line(done), flush=True)
    print(f"{len(chosen)} cases in {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
