"""A tick's result in a `Decision`: the reason that counts, the predictions, and the gaps."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.explain.decision_report import report
from tandem_operator.core.explain.predictions import (
    alternatives,
    capacity_rps,
    out_of_reach,
    outlook,
    utilization,
)
from tandem_operator.core.explain.tick_result import View
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.observation import Latency, Observation, PodPhase, Quantiles
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.observe.freshness import Freshness
from tandem_operator.core.observe.role_pods import Starts, fleet
from tandem_operator.core.quota.share import Share
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.replica_counts import Choice, RoleDemand
from tandem_operator.core.sizing.role_targets import Bursts, Plan
from tandem_operator.core.spec import Mode
from tests.unit.core import scene
from tests.unit.core.scene import NOW_S, ended, make_spec, observe, pods
from tests.unit.core.test_sizing import decode as decode_work
from tests.unit.core.test_sizing import poisson, replay, sampled

EACH_RPS = 10.0
SAMPLE = sampled(poisson(30.0))
FRESH = Freshness(act=True, shrink=True, message="all is fresh")


def late_share(rate_rps: float, replicas: int) -> float:
    """Return the late share where each replica bears ten requests a second."""
    return max(0.0, 1.0 - replicas * EACH_RPS / rate_rps) if rate_rps > 0.0 else 0.0


SITUATION = Situation(
    sample=SAMPLE,
    models=EngineModels(),
    replay=replay(SAMPLE, service_s=0.1),
    decode=decode_work(),
    demands={role: RoleDemand(late_share=late_share, busy=1.0 / EACH_RPS) for role in Role},
)
FORECAST = Forecast(lead_s=60.0, levels=(Level(60.0, 25.0, (20.0, 30.0)),))


def ending(**more: object) -> Outcomes:
    """Return a hundred requests that ended in the last minute."""
    return outcomes([scene.report(finished=[ended(NOW_S - 5, 100, **more)])], window_s=60)  # type: ignore[arg-type]


def view(
    prefill: Allowed | None = None,
    decode: Allowed | None = None,
    *,
    seen: Observation | None = None,
    **more: object,
) -> View:
    seen = seen or observe(prefill=2, decode=2)
    made = View(
        spec=make_spec(),
        now_s=NOW_S,
        next_tick_s=5.0,
        fresh=FRESH,
        fleets={role: fleet(seen, role, Starts(), NOW_S) for role in Role},
        starts=Starts(),
        allowed={
            Role.PREFILL: prefill or Allowed(2, 2, Reason.STEADY),
            Role.DECODE: decode or Allowed(2, 2, Reason.STEADY),
        },
        plan=None,
        forecast=FORECAST,
        situation=SITUATION,
        correction=Correction(),
        minute=ending(),
        recent=ending(),
        latency=None,
        rate_rps=25.0,
        overhead_s=None,
        idle=False,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def planned(target: Mapping[Role, int], **more: object) -> Plan:
    choice = Choice(wanted=target, target=target)
    return replace(Plan(choice, choice, choice), **more)  # type: ignore[arg-type]


def test_a_decision_tells_the_changes_alone_where_there_are_any() -> None:
    still, grown = report(view()), report(view(prefill=Allowed(2, 3, None)))

    assert still.sentence.startswith("prefill stays at 2")
    assert "; decode stays at 2" in still.sentence
    assert grown.sentence == grown.roles[Role.PREFILL].sentence
    assert grown.roles[Role.PREFILL].reason is Reason.PREDICTED_TTFT


@pytest.mark.parametrize("unknown", ["situation", "forecast"])
def test_a_count_that_stays_since_too_little_is_known_says_so(unknown: str) -> None:
    assert "too few measurements" in report(view(**{unknown: None})).sentence
    assert "too few measurements" not in report(view()).sentence


def test_a_sentence_begins_with_the_owner_or_the_mode_that_stops_the_change() -> None:
    def told(**settings: object) -> tuple[Reason, str]:
        spec = make_spec(**settings)  # type: ignore[arg-type]
        role = report(view(prefill=Allowed(2, 3, None), spec=spec)).roles[Role.PREFILL]
        return role.reason, role.sentence.split(":")[0]

    assert told(managed={Role.PREFILL: False}) == (
        Reason.NOT_MANAGED,
        "prefill has another owner; Tandem recommends",
    )
    assert told(mode=Mode.PAUSED) == (
        Reason.PAUSED,
        "Scaling is paused; Tandem recommends",
    )
    assert told(mode=Mode.RECOMMEND) == (Reason.PREDICTED_TTFT, "Tandem only recommends")


def test_a_limit_of_the_quota_is_not_called_the_users_budget() -> None:
    at_limit = Allowed(2, 2, Reason.GPU_BUDGET, limits_hit=("gpuBudget", "maxReplicas"))
    share = Share(gpus=4, surge_gpus=4, binds=True, words="the quota", claim=None)

    own, shared = (
        report(view(prefill=at_limit, share=each)).roles[Role.PREFILL] for each in (None, share)
    )

    assert (own.reason, own.limits_hit) == (Reason.GPU_BUDGET, ("gpuBudget", "maxReplicas"))
    assert (shared.reason, shared.limits_hit) == (
        Reason.NAMESPACE_QUOTA,
        ("namespace quota", "maxReplicas"),
    )


def test_what_is_held_for_bursts_is_the_reason_unless_the_guard_has_one() -> None:
    bursts = {Role.PREFILL: Bursts(rate_rps=20.0, times=3, span_s=3600.0, late_share=0.2)}
    plan = planned(dict.fromkeys(Role, 2), held_for=bursts)

    def reason(guards: Reason) -> Reason:
        return report(view(prefill=Allowed(2, 2, guards), plan=plan)).roles[Role.PREFILL].reason

    assert reason(Reason.STEADY) is Reason.RECURRING_BURSTS
    assert reason(Reason.STABILIZING) is Reason.STABILIZING


def test_pods_that_do_not_start_are_told_by_the_first_with_a_problem() -> None:
    stuck = pods(Role.PREFILL, 2, phase=PodPhase.UNSCHEDULED)
    troubled = replace(stuck[1], problem="ImagePullBackOff")

    def told(*extra: object) -> str | None:
        return report(view(seen=observe(prefill=2, decode=2, extra_pods=extra))).capacity_blocked  # type: ignore[arg-type]

    assert told() is None
    assert told(stuck[0]) == f"pod {stuck[0].name}: it is not scheduled"
    assert told(stuck[0], troubled) == f"pod {troubled.name} (and 1 more): ImagePullBackOff"


def test_a_minimum_that_waits_for_the_quota_is_told() -> None:
    share = Share(gpus=0, surge_gpus=0, binds=True, words="the quota has none", claim=None)

    assert report(view(share=replace(share, waiting=2))).capacity_blocked == (
        "minReplicas needs 2 GPUs; the quota has none"
    )


def test_a_pod_that_cannot_leave_its_node_is_told_with_what_helps() -> None:
    found = report(view(kept_on_nodes=(Role.DECODE,), spec=make_spec(gpu_budget=2)))

    assert found.drain_blocked == (
        "The node of decode-ready-0 is being drained, but gpuBudget 2 has no room for another pod;"
        " raise it by 1, or delete the pod"
    )
    assert report(view()).drain_blocked is None


def test_numbers_that_are_not_known_are_left_out_and_noise_is_no_rate() -> None:
    quiet = Forecast(lead_s=60.0, levels=(Level(60.0, 0.004, (0.004,)),))
    nothing = report(view(situation=None, forecast=None, rate_rps=None)).inputs
    found = report(view(forecast=quiet, overhead_s=0.01234)).inputs

    assert set(nothing) == {"correction_prefill", "correction_decode", "late_price"}
    assert found["forecast_rps"] == found["forecast_high_rps"] == 0.0
    assert found["ttft_overhead_s"] == 0.0123
    assert found["arrivals_rps"] == 25.0


def test_goodput_is_the_good_requests_of_a_second_of_the_window() -> None:
    assert report(view(recent=ending(good=90))).recent.goodput_rps == 1.5
    assert report(view(recent=ending(good=90))).recent.attainment == 0.9
    assert report(view(recent=outcomes([], window_s=60))).recent.goodput_rps is None


@pytest.mark.parametrize("ready", [1, 2, 5])
def test_capacity_is_what_ready_replicas_serve_inside_the_slo(ready: int) -> None:
    found = capacity_rps(view(), Role.PREFILL, ready)

    # Half of the five in a hundred that may be late is left for chance.
    assert found == pytest.approx(ready * EACH_RPS, rel=0.05)
    assert found <= ready * EACH_RPS / (1.0 - 0.025)


def test_without_ready_replicas_or_models_no_capacity_is_told() -> None:
    assert capacity_rps(view(), Role.PREFILL, 0) is None
    assert capacity_rps(view(situation=None), Role.PREFILL, 2) is None
    assert utilization(view(), Role.PREFILL, 0) is None
    assert utilization(view(rate_rps=None), Role.PREFILL, 2) is None


def test_utilization_is_the_share_of_time_that_the_rate_takes() -> None:
    assert utilization(view(), Role.PREFILL, 5) == 0.5


def test_the_neighbours_of_a_new_count_are_told_with_what_they_cost() -> None:
    grown = Allowed(2, 3, None)

    # At 25 requests a second a fifth is late on two replicas, and none on three or four.
    assert alternatives(view(grown), Role.PREFILL, grown) == (
        "2 prefill: 20 % of requests late because of prefill, against 0 % with 3",
        "4 prefill: 0 % of requests late because of prefill, the same as with 3",
    )
    still = Allowed(3, 3, Reason.STEADY)
    assert alternatives(view(still), Role.PREFILL, still) == ()


def test_growth_is_explained_by_the_forecast_or_by_the_highest_load_it_allows_for() -> None:
    grown = Allowed(2, 4, None)
    sure = outlook(view(grown), Role.PREFILL)
    perhaps = outlook(
        view(grown, forecast=replace(FORECAST, levels=(Level(60.0, 10.0, (5.0, 30.0)),))),
        Role.PREFILL,
    )

    assert sure is not None
    assert perhaps is not None
    # Two replicas of a tenth of a second each do not serve 25 a second at all.
    assert sure.before_s is None
    assert sure.after_s is not None
    assert sure.load.startswith("25 requests/s of")
    assert perhaps.load.startswith("up to 30 requests/s of")


def test_growth_of_decode_names_what_bounds_its_batch() -> None:
    def told(**limits: float | None) -> tuple[str | None, bool]:
        situation = replace(SITUATION, decode=decode_work(**limits))  # type: ignore[arg-type]
        found = outlook(view(decode=Allowed(2, 4, None), situation=situation), Role.DECODE)
        assert found is not None
        return found.batch_limit, found.kv_bound

    assert told(tpot_s=0.015) == (None, False)
    assert told(tpot_s=1.0) == ("the engine's batch limit (64 streams)", False)
    assert told(tpot_s=1.0, kv=10_000.0) == ("KV capacity (8 streams)", True)


def test_without_growth_only_the_bound_is_told() -> None:
    found = outlook(view(), Role.DECODE)

    assert found is not None
    assert (found.quantity, found.bound_s, found.load) == ("TPOT", 0.03, "")
    assert outlook(view(situation=None), Role.DECODE) is None


@pytest.mark.parametrize(
    ("p95_s", "late", "observed_s"), [(1.4, 10, 1.4), (0.9, 10, None), (1.4, 5, None)]
)
def test_what_was_measured_explains_growth_where_the_role_broke_the_objective(
    p95_s: float, late: int, observed_s: float | None
) -> None:
    measured = Latency(NOW_S, ttft=Quantiles(p95_s=p95_s), tpot=Quantiles())
    minute = ending(good=100 - late, blame={"engine_queue": late})

    found = outlook(view(Allowed(2, 4, None), latency=measured, minute=minute), Role.PREFILL)

    assert found is not None
    assert found.observed_s == observed_s


def test_a_bound_that_no_count_keeps_is_told_of_its_role_alone() -> None:
    slow = replace(SITUATION, decode=decode_work(tpot_s=0.005))

    assert out_of_reach(view(situation=slow), Role.DECODE) == (
        "no number of replicas can keep TPOT within 30 ms for 95 % of requests"
    )
    assert out_of_reach(view(situation=slow), Role.PREFILL) is None
    assert report(view(situation=slow)).slo_feasible is False
    assert report(view(situation=slow)).feasible_tpot_s is not None
    assert report(view()).feasible_tpot_s is None
