"""`python -m benchmarks.priors`: how far first guesses of an engine are from what it then costs.

For each profile that ships: what an engine would measure of itself before it is Ready, alone and
together with its GPU's data sheet or a shipped profile, against the profile's own table. Prompts of
2,048 to 16,384 tokens; batches of 8 to 256 streams of 512 to 8,192 tokens each.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from statistics import fmean

from benchmarks.priors.fit import decode_points, fitted
from tandem_operator.cli.input.profiles import profile_of, shipped
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.least_squares import dot
from tandem_operator.core.learn.roofline import Prior, roofline
from tandem_operator.core.learn.shipped_profiles import Shipped
from tandem_operator.core.observation import Hardware, StartUp
from tandem_operator.core.role import Role
from tandem_operator.sim.engines.profile import EngineProfile

GUESSES = ("measured", "+ data sheet", "+ profile", "data sheet alone", "profile alone")
LONG_PROMPTS = (2048, 4096, 8192, 16384)
LEAST_BATCH = 8


def main(arguments: Sequence[str]) -> int:
    """Print the errors, or the rows that ship."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.priors", description=__doc__)
    parser.add_argument(
        "--table", action="store_true", help="print the rows of shipped_profiles.py"
    )
    if parser.parse_args(arguments).table:
        print("\n".join(rows(fitted(name) for name in shipped())))
        return 0
    print("Mean error of prefill seconds / of decode step seconds, signed: + is too slow.\n")
    print(f"| profile | {' | '.join(GUESSES)} |\n|---|{'---|' * len(GUESSES)}")
    every = []
    for known in map(fitted, shipped()):
        name = known.name
        found = [
            errors(profile_of(name), models) for models in guesses(told_by(known), known.prior)
        ]
        every.append(found)
        print(f"| {name} | {' | '.join(f'{a:+.0%} / {b:+.0%}' for a, b in found)} |")
    means = [
        tuple(fmean(abs(found[i][role]) for found in every) for role in (0, 1))
        for i in range(len(GUESSES))
    ]
    print(f"| mean without sign | {' | '.join(f'{a:.0%} / {b:.0%}' for a, b in means)} |")
    return 0


def told_by(known: Shipped) -> StartUp:
    """Return what an engine of that profile would measure of itself before it is Ready."""
    profile = profile_of(known.name)
    return StartUp(
        prefill=tuple((float(u), profile.service_s(u)) for u in (32, 1024)),
        steps=tuple((float(b), profile.step_s(b, 16.0 * b)) for b in (1, profile.max_num_seqs)),
        shape=known.shape,
        hardware=Hardware(device=known.device, devices=known.devices),
    )


def guesses(start_up: StartUp, by_profile: Prior | None) -> Iterable[EngineModels]:
    """Yield the models before any traffic, by each kind of guess."""
    assert start_up.shape is not None
    assert start_up.hardware is not None
    by_sheet = roofline(start_up.shape, start_up.hardware)
    for known, prior in (
        (start_up, None),
        (start_up, by_sheet),
        (start_up, by_profile),
        (StartUp(), by_sheet),
        (StartUp(), by_profile),
    ):
        yield EngineModels().with_start_up(Role.PREFILL, known, prior)


def errors(profile: EngineProfile, models: EngineModels) -> tuple[float, float]:
    """Return the mean relative error of prefill seconds and of decode step seconds."""
    service, step = models.service.coefficients(), models.step.coefficients()
    prefill = [
        dot(service, (1.0, u, u * u / 2.0)) / profile.service_s(u) - 1.0 for u in LONG_PROMPTS
    ]
    decode = [
        dot(step, (1.0, b, b * c)) / profile.step_s(b, b * c) - 1.0
        for b, c in decode_points(profile)
        if b >= LEAST_BATCH
    ]
    return fmean(prefill), fmean(decode)


def rows(found: Iterable[Shipped]) -> Iterable[str]:
    """Yield the rows as they stand in the core, one for each profile."""
    for each in found:
        shape = ", ".join(f"{value:.6g}" for value in astuple(each.shape)[:-1])
        yield (
            f"        (\n            {each.name!r}, {each.device!r}, {each.devices},\n"
            f"            ({shape}, {each.shape.compute_bits}),\n"
            f"            {each.prior.service}, {each.prior.step},\n        ),"
        ).replace("'", '"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
