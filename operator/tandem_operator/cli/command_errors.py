"""What ends a command: one sentence for the person who typed it."""

from tandem_operator.api import InvalidPoolError
from tandem_operator.sim.engines.profile_files import ProfileError
from tandem_operator.sim.traces.readers import TraceError

EXIT_BAD_INPUT = 2
EXIT_FAILED = 1


class BadInputError(ValueError):
    """What was asked for makes no sense; the sentence says what would."""


class FailedError(Exception):
    """What was asked for makes sense and could not be done; the sentence says why."""


class SilentClusterError(FailedError):
    """An API server did not answer; it may the next time."""


BAD_INPUT = (BadInputError, InvalidPoolError, ProfileError, TraceError)
