"""The errors that end a command: one sentence for the person who typed it."""

from tandem_operator.api import InvalidPoolError
from tandem_operator.sim.engines.profile_files import ProfileError
from tandem_operator.sim.traces.readers import TraceError

EXIT_BAD_INPUT = 2
EXIT_FAILED = 1


class BadInputError(ValueError):
    """The request makes no sense; the sentence names a request that would."""


class FailedError(Exception):
    """The request makes sense, but it could not be done; the sentence says why."""


class SilentClusterError(FailedError):
    """An API server did not answer; it may answer the next time."""


BAD_INPUT = (BadInputError, InvalidPoolError, ProfileError, TraceError)
