"""The number of random cases: few by default, many with `--hypothesis-profile deep`."""

from hypothesis import HealthCheck, settings

COMMON = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
settings.register_profile("quick", COMMON, max_examples=12)
settings.register_profile("deep", COMMON, max_examples=30)
settings.load_profile("quick")
