"""Runs the command line with the packages beside this file, and with no others."""

import os
import sys
from pathlib import Path

_LIB = Path(__file__).resolve().parent / "lib"
sys.path[:0] = [str(_LIB / f"{sys.implementation.cache_tag}{sys.abiflags}"), str(_LIB / "any")]

if __name__ == "__main__":
    from tandem_operator.cli.__main__ import main

    # The variable by which a shell asks for completions has the program's name.
    sys.argv[0] = "tandem" if "_TANDEM_COMPLETE" in os.environ else "kubectl-tandem"
    main()
