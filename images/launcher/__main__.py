"""The program of `python3 /opt/tandem` in an engine pod: the launcher, from its copied folder."""

import sys

from tandem_engine.serve.__main__ import main

sys.exit(main())
