"""The policies that a command can name, each with the settings that its users would begin with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

from tandem_operator.cli.input.case import Case
from tandem_operator.cli.units import amount, latency
from tandem_operator.core.role import Role
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.baselines.hpa import Hpa, HpaSettings, keda
from tandem_operator.sim.baselines.scheduled import Scheduled
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.policy import Policy, Static, Tandem

# Half of the load that a replica could serve; the other half is for a new one's start-up time.
CONCURRENCY_SHARE = 0.5
LATENCY_SHARE = 0.8
LEAST_CONCURRENCY = 1.0


class PolicyName(StrEnum):
    """The rule that decides replica counts."""

    TANDEM = "tandem"
    HOLD = "hold"
    STATIC = "static"
    CHEAPEST = "cheapest"
    HPA = "hpa"
    KEDA = "keda"
    DYNAMO = "dynamo"
    CLAIRVOYANT = "clairvoyant"


def policy_for(name: PolicyName, case: Case) -> Policy:
    """Return a new instance of the policy."""
    policy = _MADE[name](case)
    return Scheduled(policy) if _is_helped(name, case) else policy


def lent(names: Sequence[PolicyName], case: Case) -> Iterator[str]:
    """Yield sentences on what the other policies get from Tandem, or know from the simulator."""
    others = [name for name in names if name is not PolicyName.TANDEM]
    if not others:
        return
    by_profile = case.router.decode_gate or case.router.overflow
    gate = ", its gate and overflow by the profile" if by_profile else ""
    router = "Tandem's router, with its queue by deadline and its limits"
    yield f"All other policies use {router}{gate}."
    if any(_is_helped(name, case) for name in names):
        yield (
            "Schedules raise the minimums of all policies that scale. Only tandem starts pods"
            " before a schedule begins."
        )
    prompt, _ = _mean_tokens(case)
    for name in others:
        match name:
            case PolicyName.HPA:
                ttft_s, tpot_s = (latency_settings(case).target[role] for role in Role)
                yield (
                    f"hpa uses targets of {LATENCY_SHARE:.0%} of both bounds: TTFT"
                    f" {latency(ttft_s)} (by the mean prompt of {prompt:,.0f} tokens) and TPOT"
                    f" {latency(tpot_s)}."
                )
            case PolicyName.KEDA:
                held = concurrency(case)
                yield (
                    f"keda uses targets from the profile: {amount(held[Role.PREFILL])} requests"
                    f" per prefill replica and {amount(held[Role.DECODE])} per decode replica,"
                    f" {CONCURRENCY_SHARE:.0%} of what each can hold."
                )
            case PolicyName.DYNAMO | PolicyName.HOLD:
                yield f"{name} knows the simulated profile exactly."
            case PolicyName.CLAIRVOYANT:
                yield "clairvoyant knows every arrival and every length in advance."
            case PolicyName.CHEAPEST:
                yield "cheapest is the smallest fixed fleet for this traffic, chosen in hindsight."


def _is_helped(name: PolicyName, case: Case) -> bool:
    """Return whether the minimums of schedules are raised for the policy."""
    return bool(case.spec.periods) and name not in _WITHOUT_HELP


def latency_settings(case: Case, share: float = LATENCY_SHARE) -> HpaSettings:
    """Return settings that keep TTFT and TPOT at a share of their bounds."""
    slo = case.spec.slo
    prompt, _ = _mean_tokens(case)
    target = {Role.PREFILL: slo.ttft_bound_s(prompt), Role.DECODE: slo.tpot_s}
    return HpaSettings(
        signal=Signal.LATENCY,
        target={role: share * bound_s for role, bound_s in target.items()},
    )


def concurrency(case: Case, share: float = CONCURRENCY_SHARE) -> Mapping[Role, float]:
    """Return a share of the requests that a replica can hold within both bounds."""
    profile, slo = case.profile, case.spec.slo
    prompt, output = _mean_tokens(case)
    held = {
        Role.PREFILL: slo.ttft_bound_s(prompt) / profile.service_s(prompt),
        Role.DECODE: min(
            profile.largest_batch(slo.tpot_s, prompt + output / 2), case.spec.max_num_seqs
        ),
    }
    return {role: max(LEAST_CONCURRENCY, share * count) for role, count in held.items()}


def _mean_tokens(case: Case) -> tuple[float, float]:
    requests = case.trace.requests
    count = max(1, len(requests))
    prompt = sum(r.prompt_tokens for r in requests) / count
    return prompt, sum(r.output_tokens for r in requests) / count


def _clairvoyant(case: Case) -> Policy:
    return Clairvoyant(case.demand, case.profile, case.spec, start_s=case.cold_start.median_s)


# Tandem reads schedules itself, and a fixed fleet does not scale.
_WITHOUT_HELP = frozenset((PolicyName.TANDEM, PolicyName.STATIC, PolicyName.CHEAPEST))
_MADE: dict[PolicyName, Callable[[Case], Policy]] = {
    PolicyName.TANDEM: lambda _: Tandem(),
    PolicyName.HOLD: lambda case: Hold(case.profile),
    PolicyName.STATIC: lambda case: Static(case.start),
    PolicyName.CHEAPEST: lambda case: Static(case.start),
    PolicyName.HPA: lambda case: Hpa("hpa on p95 latency", latency_settings(case)),
    PolicyName.KEDA: lambda case: keda(concurrency(case), signal=Signal.CONCURRENCY),
    PolicyName.DYNAMO: lambda case: Dynamo(case.profile, DynamoSettings()),
    PolicyName.CLAIRVOYANT: _clairvoyant,
}
