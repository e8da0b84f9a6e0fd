"""The policies that a command can name, each with the settings that its users would start from."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from tandem_operator.cli.case import Case
from tandem_operator.core.role import Role
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.baselines.hpa import Hpa, HpaSettings, keda
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.policy import Policy, Static, Tandem

# Half of what a replica could serve: the other half is for the time a new one takes to start.
CONCURRENCY_SHARE = 0.5
LATENCY_SHARE = 0.8
LEAST_CONCURRENCY = 1.0


class PolicyName(StrEnum):
    """What decides replica counts."""

    TANDEM = "tandem"
    HOLD = "hold"
    STATIC = "static"
    HPA = "hpa"
    KEDA = "keda"
    DYNAMO = "dynamo"
    CLAIRVOYANT = "clairvoyant"


def policy_for(name: PolicyName, case: Case) -> Policy:
    """The policy, fresh."""
    return _MADE[name](case)


def _latency(case: Case) -> HpaSettings:
    """TTFT and TPOT kept at four fifths of their bounds."""
    slo = case.spec.slo
    prompt, _ = _mean_tokens(case)
    target = {Role.PREFILL: slo.ttft_bound_s(prompt), Role.DECODE: slo.tpot_s}
    return HpaSettings(
        signal=Signal.LATENCY,
        target={role: LATENCY_SHARE * bound_s for role, bound_s in target.items()},
    )


def _concurrency(case: Case) -> Mapping[Role, float]:
    """Half of the requests that a replica can hold and still keep both bounds."""
    profile, slo = case.profile, case.spec.slo
    prompt, output = _mean_tokens(case)
    held = {
        Role.PREFILL: slo.ttft_bound_s(prompt) / profile.service_s(prompt),
        Role.DECODE: min(
            profile.largest_batch(slo.tpot_s, prompt + output / 2), case.spec.max_num_seqs
        ),
    }
    return {role: max(LEAST_CONCURRENCY, CONCURRENCY_SHARE * count) for role, count in held.items()}


def _mean_tokens(case: Case) -> tuple[float, float]:
    requests = case.trace.requests
    count = max(1, len(requests))
    prompt = sum(r.prompt_tokens for r in requests) / count
    return prompt, sum(r.output_tokens for r in requests) / count


def _clairvoyant(case: Case) -> Policy:
    return Clairvoyant(case.trace, case.profile, case.spec, start_s=case.cold_start.median_s)


_MADE: dict[PolicyName, Callable[[Case], Policy]] = {
    PolicyName.TANDEM: lambda _: Tandem(),
    PolicyName.HOLD: lambda case: Hold(case.profile),
    PolicyName.STATIC: lambda case: Static(case.start),
    PolicyName.HPA: lambda case: Hpa("hpa on p95 latency", _latency(case)),
    PolicyName.KEDA: lambda case: keda(_concurrency(case), signal=Signal.CONCURRENCY),
    PolicyName.DYNAMO: lambda case: Dynamo(case.profile, DynamoSettings()),
    PolicyName.CLAIRVOYANT: _clairvoyant,
}
