"""No test fails for being slow: how long an example takes is up to what else the machine does."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
