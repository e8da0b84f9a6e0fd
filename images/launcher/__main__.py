"""What `python3 /opt/tandem` runs in an engine pod: the launcher, from where it was copied to."""

import sys

from tandem_engine.serve.__main__ import main

sys.exit(main())
