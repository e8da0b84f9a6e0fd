"""An explanation of a pool's replicas, for the terminal and for programs."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from tandem_operator.api import CostStatus, LatencyStatus, RoleStatus
from tandem_operator.cli.diagnosis.advice import is_bad, to_do
from tandem_operator.cli.input.pool_evidence import Evidence
from tandem_operator.cli.output.figure_table import FigureTable
from tandem_operator.cli.output.tables import slo_json, slo_text
from tandem_operator.cli.units import UNKNOWN, amount, latency
from tandem_operator.core.explain.sentences import held_for, percent
from tandem_operator.core.learn.engine_models import newest
from tandem_operator.core.learn.first_estimates import FirstEstimate
from tandem_operator.core.learn.least_squares import Line
from tandem_operator.core.memory import Memory
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.workloads.pool_spec import policy_of

# The names of a decision's numbers, in the order of display; {} is the number.
INPUTS = {
    "arrivals_rps": ("arrival rate", "{}/s"),
    "forecast_rps": ("forecast, highest mean", "{}/s"),
    "forecast_high_rps": ("forecast, high case", "{}/s"),
    "forecast_room": ("factor for new traffic, included", "{} times"),
    "forecast_horizon_s": ("forecast horizon", "{} s"),
    "prompt_tokens": ("prompt tokens, mean", "{}"),
    "output_tokens": ("output tokens, mean", "{}"),
    "arrival_dispersion": ("dispersion of arrivals (1: Poisson)", "{}"),
    "prefill_service_s": ("prefill time of a request", "{} s"),
    "prefill_model_error_ratio": ("error of the prefill model, share", "{}"),
    "decode_batch": ("streams of a decode replica", "{}"),
    "decode_tokens_per_s": ("tokens/s of a decode replica", "{}"),
    "decode_model_error_ratio": ("error of the decode model, share", "{}"),
    "kv_capacity_tokens": ("KV cache of a replica", "{} tokens"),
    "ttft_overhead_s": ("part of TTFT outside of prefill", "{} s"),
    "infeasible_share": ("requests late with any number of replicas, share", "{}"),
    "cold_start_prefill_s": ("cold start of prefill, P90", "{} s"),
    "cold_start_decode_s": ("cold start of decode, P90", "{} s"),
    "correction_prefill": ("prefill slower than its model", "{} x"),
    "correction_decode": ("decode slower than its model", "{} x"),
    "late_price": ("price of a late request", "{} x"),
}
# The windows of the alerts.
TOLD_WINDOWS = ("5m", "1h", "6h")
FLEET_TITLES = ("", "asked", "ready", "wanted", "starting", "capacity", "used")


def show(console: Console, found: Evidence, *, events: int) -> None:
    """Print the whole explanation."""

    def line(text: str, style: str | None = None) -> None:
        console.print(text, style=style, soft_wrap=True)

    def head(text: str) -> None:
        console.print()
        line(text, "bold")

    slo = slo_of(found)
    line(
        f"{found.namespace}/{found.name}: {'unknown SLO' if slo is None else slo_text(slo)}", "bold"
    )
    if found.fault is not None:
        line(f"The spec is not valid: {found.fault}", "red")
    if found.status.endpoint:
        line(found.status.endpoint, "dim")
    console.print(_fleets(found))
    measured = [*measurements(found), *tenant_pairs(found)]
    if measured:
        head("Measured in the recent window")
        console.print(_pairs(measured))
    head("Last decision")
    for text in decision_lines(found):
        line(text)
    schedules = list(schedule_pairs(found))
    if schedules:
        head("Schedules")
        console.print(_pairs(schedules))
    inputs = list(input_pairs(found))
    if inputs:
        head("Inputs of the decision")
        console.print(_pairs(inputs))
    learned = list(memory_pairs(found.memory)) if found.memory is not None else []
    if found.memory_fault is not None:
        line(f"What Tandem learned is not shown: {found.memory_fault}", "yellow")
    if learned:
        head("Learned models")
        console.print(_pairs(learned))
    insured = list(insurance_pairs(found.memory)) if found.memory is not None else []
    if insured:
        head("Insurance against bursts")
        console.print(_pairs(insured))
    if found.events and events:
        head(f"Events, the last {min(events, len(found.events))}")
        console.print(_events(found, events))
    head("Conditions")
    _conditions(console, found)


def slo_of(found: Evidence) -> Slo | None:
    """Return the pool's SLO, if its spec makes sense."""
    return None if found.pool is None else policy_of(found.pool.spec).slo


def _fleets(found: Evidence) -> FigureTable:
    rows = []
    for role in Role:
        fleet = _fleet(found, role)
        counts = (fleet.current, fleet.ready, fleet.desired, fleet.pending)
        capacity = UNKNOWN if fleet.capacity is None else f"{fleet.capacity} requests/s"
        shown = (UNKNOWN if count is None else str(count) for count in counts)
        rows.append((role.value, *shown, capacity, fleet.utilization or UNKNOWN))
    return FigureTable(FLEET_TITLES, rows)


def _fleet(found: Evidence, role: Role) -> RoleStatus:
    fleet = found.status.prefill if role is Role.PREFILL else found.status.decode
    return RoleStatus() if fleet is None else fleet


def measurements(found: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the routers' measurements, with their bounds."""
    slo_status, slo = found.status.slo, slo_of(found)
    if slo_status is None:
        return
    bounds = {"TTFT": "", "TPOT": ""}
    if slo is not None:
        per = slo.ttft_s_per_thousand_prompt_tokens
        grows = f" + {latency(per)} per 1,000 tokens" if per else ""
        bounds = {"TTFT": f"{latency(slo.ttft_s)}{grows}", "TPOT": latency(slo.tpot_s)}
    for name, at in (("TTFT", slo_status.ttft), ("TPOT", slo_status.tpot)):
        if at is not None:
            bound = f", bound {bounds[name]}" if bounds[name] else ""
            yield f"{name} p50, p95, p99", f"{_quantiles(at)}{bound}"
    if slo_status.attainment is not None:
        wanted = f", {100.0 * slo.attainment:g}% wanted" if slo is not None else ""
        yield "attainment", f"{slo_status.attainment}{wanted}"
    for each in slo_status.classes or ():
        kept = UNKNOWN if each.attainment is None else f"{each.attainment} attainment"
        rate = "" if each.good_tokens is None else f", {each.good_tokens} good tokens/s"
        waiting = f", {each.queued} waiting" if each.queued else ""
        yield f"class {each.name}", f"{kept}{rate}{waiting}"
    budget = slo_status.error_budget_remaining
    if budget is not None:
        shares = ((budget.share, budget.window), (budget.share_30d, "30d"))
        left = ", ".join(f"{share} of {window}" for share, window in shares if share is not None)
        spent = "" if found.memory is None or slo is None else _burn(found.memory, slo)
        yield "error budget left", f"{left}{spent}"
    if slo_status.goodput is not None:
        per_gpu = f", {slo_status.goodput_per_gpu} per GPU" if slo_status.goodput_per_gpu else ""
        yield "goodput", f"{slo_status.goodput} good requests/s{per_gpu}"
    if found.status.cost is not None:
        yield "cost", _spent(found.status.cost)
    if slo_status.blame:
        causes = sorted(slo_status.blame.items(), key=lambda item: -item[1])
        yield "misses by cause", ", ".join(f"{cause} {count}" for cause, count in causes)


def tenant_pairs(found: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the results of each tenant."""
    for each in found.status.tenants or ():
        kept = UNKNOWN if each.attainment is None else f"{each.attainment} attainment"
        rates = {
            "requests/s": each.requests,
            "refused/s": each.refused,
            "output tokens/s": each.output_tokens,
        }
        told = (f", {rate} {unit}" for unit, rate in rates.items() if rate not in (None, "0"))
        yield f"tenant {each.name}", kept + "".join(told)


def _spent(cost: CostStatus) -> str:
    parts = {
        "an hour": cost.per_hour,
        "for a million output tokens": cost.per_million_tokens,
        "for a thousand good requests": cost.per_thousand_good_requests,
    }
    return ", ".join(f"{amount} {unit}" for unit, amount in parts.items() if amount)


def _burn(memory: Memory, slo: Slo) -> str:
    rates = memory.promise.budget.left(slo.attainment).burn_rates
    told = {window: rates[window] for window in TOLD_WINDOWS if window in rates}
    spent = ", ".join(f"{amount(rate)} x over {window}" for window, rate in told.items())
    return f"; spent at {spent}" if spent else ""


def _quantiles(at: LatencyStatus) -> str:
    return ", ".join(each or UNKNOWN for each in (at.p50, at.p95, at.p99))


def decision_lines(found: Evidence) -> Iterator[str]:
    """Yield the last decision: its time, counts, cause, obstacles and alternatives."""
    decision = found.status.decision
    if decision is None:
        yield "None yet. Tandem decides nothing before the first router is Ready."
        return
    yield f"{decision.time}: {decision.reason}"
    for limit in decision.limits_hit or ():
        yield f"  limit: {limit}"
    for other in decision.alternatives or ():
        yield f"  not taken: {other}"


def schedule_pairs(found: Evidence) -> Iterator[tuple[str, str]]:
    """Until when each schedule is in force, and its next start."""
    for each in found.status.schedules or ():
        until = None if each.until is None else f"in force until {each.until}"
        coming = None if each.next is None else f"begins at {each.next}"
        yield each.name, "; ".join(filter(None, (until, coming))) or "in force"


def input_pairs(found: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the numbers behind the decision, in words."""
    decision = found.status.decision
    inputs = (decision.inputs if decision is not None else None) or {}
    for name, (label, form) in INPUTS.items():
        if name in inputs:
            yield label, form.format(inputs[name])
    for name, value in inputs.items():
        if name not in INPUTS:
            yield name, value


def _source(line: Line, first: FirstEstimate | None) -> str:
    if line.measured:
        return f"error {amount(100.0 * line.error_ratio)}%"
    if first is not None and not first.measured:
        return "by its model's shape and its GPU's data sheet, not measured yet"
    return "as an engine measured itself at its start"


def memory_pairs(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield the learned models of the engines that run now, and the start-up times of pods."""
    revision = newest(memory.learned.engines)
    if revision is not None:
        models = memory.learned.engines[revision]
        if models.service.known:
            a0, a1, a2 = (1000.0 * value for value in models.service.coefficients())
            yield (
                "prefill of u tokens",
                f"{a0:.3g} ms + {a1:.3g} ms x u + {a2:.3g} ms x u x context "
                f"({_source(models.service.line, models.service.first)})",
            )
        if models.step.known:
            d0, d1, d2 = (1000.0 * value for value in models.step.coefficients())
            yield (
                "decode step of b streams",
                f"{d0:.3g} ms + {d1:.3g} ms x b + {d2:.3g} ms x KV tokens "
                f"({_source(models.step.line, models.step.first)})",
            )
        if models.kv_capacity_tokens is not None:
            yield "KV cache of a replica", f"{models.kv_capacity_tokens:,.0f} tokens"
    for role in Role:
        starts = memory.starts.measured.get(role, ())
        if starts:
            half, most = (memory.starts.quantile_s(role, at) for at in (0.5, 0.9))
            yield (
                f"cold start of {role}",
                f"{amount(half)} s, P90 {amount(most)} s ({len(starts)} seen)",
            )


def insurance_pairs(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield the insurance against recurring bursts: its counts, time, bursts and value."""
    cover = memory.promise.cover
    held = {role: floor for role, floor in cover.floors.items() if floor > 1}
    for role, floor in held.items():
        bursts = cover.bursts.get(role)
        why = "" if bursts is None else f": {held_for(bursts, role)}"
        yield f"{role} held at", f"{floor}{why}"
    if cover.steady:
        yield "more than that", "only for more load than it was chosen for"
    elif cover.most:
        most = ", ".join(f"{count} {role}" for role, count in cover.most.items())
        yield "no more than", f"{most}, except for more load than it was chosen for"
    if cover.hold_s:
        yield "what was needed is kept for", f"{amount(cover.hold_s / 60.0)} min at least"
    if held or cover.hold_s:
        yield (
            "late in the last hours, played again",
            f"{percent(cover.late_share)} with it, {percent(cover.bare_share)} without",
        )


def _pairs(rows: list[tuple[str, str]]) -> Table:
    table = _grid(2)
    for label, value in rows:
        table.add_row(f"  {label}", value)
    return table


def _grid(columns: int) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table


def _events(found: Evidence, most: int) -> Table:
    table = _grid(3)
    for event in found.events[-most:]:
        style = "yellow" if event.warning else None
        table.add_row(f"  {event.at[:19]}", event.reason, event.message, style=style)
    return table


def _conditions(console: Console, found: Evidence) -> None:
    for condition in found.status.conditions or ():
        bad = is_bad(condition)
        text = f"  {condition.type}={condition.status} ({condition.reason}): {condition.message}"
        console.print(text, style="red" if bad else None, soft_wrap=True)
        done = to_do(condition, found.status, name=found.name, namespace=found.namespace)
        if done is not None:
            console.print(f"      -> {done}", soft_wrap=True)
    if not found.status.conditions:
        console.print("  None yet. Check that the operator runs and watches this namespace.")


def to_json(found: Evidence) -> dict[str, Any]:
    """Return the explanation for programs."""
    slo = slo_of(found)
    return {
        "name": found.name,
        "namespace": found.namespace,
        "slo": None if slo is None else slo_json(slo),
        "fault": found.fault,
        "status": found.status.to_object(),
        "learned": dict(memory_pairs(found.memory)) if found.memory is not None else None,
        "insurance": dict(insurance_pairs(found.memory)) if found.memory is not None else None,
        "memory_fault": found.memory_fault,
        "events": [
            {"at": e.at, "reason": e.reason, "message": e.message, "warning": e.warning}
            for e in found.events
        ],
        "to_do": {
            condition.type: done
            for condition in found.status.conditions or ()
            if (done := to_do(condition, found.status, name=found.name, namespace=found.namespace))
            is not None
        },
        "bad": [each.type for each in found.status.conditions or () if is_bad(each)],
    }
