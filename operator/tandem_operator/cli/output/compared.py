"""Two runs of one pool before and after an edit, as rows, sentences and JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_operator.api import InferencePool
from tandem_operator.cli.experiments import objective_costs
from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.experiments.objective_costs import BudgetTable
from tandem_operator.cli.experiments.spread import (
    NO_DIFFERENCE,
    Interval,
    difference,
    percent,
    points,
)
from tandem_operator.cli.output.tables import case_json, engines_text, lost, slo_text
from tandem_operator.cli.units import UNKNOWN, amount, latency, share
from tandem_operator.core.role import Role

MONTH_HOURS = 730.0
LEAST_GPUS = 0.005
# Fields that the operator applies without a new pod template.
RESTARTS_NOTHING = (
    *("slo.", "scaling.", "metrics.", "cost.", "networkPolicies"),
    *("router.timeouts.", "router.tracing.", "router.tenants."),
    # `inFlightBodyBytes` is not among them: it decides the memory of router pods.
    *(f"router.limits.{name}" for name in ("body", "header", "concurrent", "queued", "prefill")),
    "router.limits.choices",
    *(f"router.{name}" for name in ("decodeAdmission", "prefillOverflow", "prefillPlacement")),
    *("router.cacheSaltHeader", "router.requestLog", "router.gateway.", "model.aliases"),
    # Valid only with `size`, and so only for a claim.
    "model.cache.storageClassName",
    *(f"{part}.{name}" for part in (*Role, "router") for name in ("minReplicas", "maxReplicas")),
    *(f"{role}.management" for role in Role),
)

_CLAIM_SIZE = "model.cache.size"
# A list whose order means nothing: each tenant is shown by its name.
_TENANTS = "router.tenants.named"

# Fields that decide the speed of one replica, and so the profile that describes it.
DECIDES_SPEED = (
    *(
        "model.source.image.",
        "model.source.persistentVolumeClaim.",
        "model.source.huggingFace.repo",
        "model.source.uri",
    ),
    *("engine.device", "engine.dtype", "engine.quantization"),
    *(f"{role}.gpusPerReplica" for role in Role),
)

Row = tuple[str, ...]
Figure = Callable[[Run], float | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The old and the new pool, in this order.

    Attributes:
        repeats: the runs of each seed; `runs` are the first.
        budget: the cost of other objectives of the new spec.
    """

    names: tuple[str, str]
    pools: tuple[InferencePool, InferencePool]
    runs: tuple[Run, Run]
    repeats: tuple[tuple[Run, Run], ...]
    budget: BudgetTable

    @property
    def kept_by_old(self) -> float:
        """Return the attainment under the new SLO if the sizes stayed as under the old spec."""
        old, new = self.runs
        return old.attainment_under(new.case.spec.slo)

    def over_seeds(self, figure: Figure) -> Interval | None:
        """Return new less old of a figure; `None` for one seed, or if it is not known."""
        return difference(
            [figure(new) for _, new in self.repeats], [figure(old) for old, _ in self.repeats]
        )

    def mean_of(self, side: int, figure: Figure) -> float | None:
        """Return a figure's mean over the seeds."""
        values = [figure(pair[side]) for pair in self.repeats]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the titles of the columns of `rows`."""
        seeds = len(self.repeats)
        over = () if seeds == 1 else (f"over {seeds} seeds",)
        return ("", "old", "new", "difference", *over)


def edits(found: Comparison) -> list[str]:
    """Return each field that differs: `slo.ttft.target: 300ms -> 200ms`."""
    old, new = (_flat(pool.spec.to_object()) for pool in found.pools)
    return [
        f"{name}: {old.get(name, 'not set')} -> {new.get(name, 'not set')}"
        for name in _differing(old, new)
    ]


def need_new_pods(pools: tuple[InferencePool, InferencePool]) -> list[str]:
    """Return the fields whose edit changes a pod template."""
    old, new = (_flat(pool.spec.to_object()) for pool in pools)
    # A claim grows without new pods. Pods are new if there was no claim before, or there is none
    # now.
    beneath = {_CLAIM_SIZE} & old.keys() & new.keys()
    return [
        name
        for name in _differing(old, new)
        if name not in beneath and not name.startswith(RESTARTS_NOTHING)
    ]


def _edited(pools: tuple[InferencePool, InferencePool]) -> list[str]:
    old, new = (_flat(pool.spec.to_object()) for pool in pools)
    return _differing(old, new)


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    fields = [*old, *(name for name in new if name not in old)]
    return [name for name in fields if old.get(name) != new.get(name)]


def restarts(found: Comparison) -> str:
    """Return whether the edit replaces pods, in a sentence."""
    if found.pools[0].metadata.name != found.pools[1].metadata.name:
        return "The manifests name different pools, so this compares two pools and not one edit."
    names = _edited(found.pools)
    if not names:
        return "The two specs are the same."
    heavy = need_new_pods(found.pools)
    if not heavy and any(name.startswith("model.cache.") for name in names):
        return "The edit restarts nothing; its StorageClass decides whether the volume changes."
    if not heavy:
        return "The edit restarts nothing; it is in force within seconds."
    return f"The edit replaces pods in a rolling update ({', '.join(heavy)})."


def engines(found: Comparison) -> str:
    """Return the engines before and after, once if they are the same."""
    old, new = (engines_text(run.case) for run in found.runs)
    return old if old == new else f"before: {old}; after: {new}"


def slos(found: Comparison) -> list[str]:
    """Return the bounds before and after, presets filled in, if they differ."""
    old, new = (run.case.spec.slo for run in found.runs)
    return [] if old == new else [f"SLO before: {slo_text(old)}", f"SLO after: {slo_text(new)}"]


def notes(found: Comparison) -> list[str]:
    """Return facts that the figures do not show, with the side if it holds for one side only."""
    old, new = (run.case.notes for run in found.runs)
    return [
        *_one_profile_for_two(found),
        *(note if note in new else f"old: {note}" for note in old),
        *(f"new: {note}" for note in new if note not in old),
    ]


def _one_profile_for_two(found: Comparison) -> Iterator[str]:
    """Yield a note if one profile describes both sides but the edit changes their speed."""
    edited = _edited(found.pools)
    faster_or_slower = [name for name in edited if name.startswith(DECIDES_SPEED)]
    old, new = (run.case.profile.name for run in found.runs)
    if faster_or_slower and old == new:
        yield (
            f"the edit changes the speed of replicas ({', '.join(faster_or_slower)}), but"
            f" {old} describes both sides; set --new-profile for the new ones."
        )


def rows(found: Comparison) -> Iterator[Row]:
    """Yield figure, old, new and difference; with several seeds also its interval over them."""
    old, new = found.runs
    several = len(found.repeats) > 1

    def row(label: str, a: str, b: str, apart: str, over: str = "") -> Row:
        return (label, a, b, apart, over) if several else (label, a, b, apart)

    def numbers(label: str, figure: Figure, text: Callable[[float | None], str] = amount) -> Row:
        a, b = figure(old), figure(new)
        over = percent(found.over_seeds(figure), found.mean_of(0, figure)) if several else ""
        return row(label, text(a), text(b), relative(a, b), over)

    a, b = old.report.attainment, new.report.attainment
    over = points(found.over_seeds(_attainment)) if several else ""
    yield row("attainment", share(a), share(b), f"{100.0 * (b - a):+.2f} points", over)
    if old.case.spec.slo != new.case.spec.slo:
        yield row("attainment of the new SLO", share(found.kept_by_old), share(b), "")
    if any(run.report.failed or run.report.unfinished for run in found.runs):
        yield row("failed, unfinished", lost(old), lost(new), "")
    yield numbers("GPUs on average", _mean_gpus)
    yield row(
        "GPUs at most",
        f"{old.most_gpus}",
        f"{new.most_gpus}",
        _signed(new.most_gpus - old.most_gpus),
    )
    yield numbers("GPU-hours", lambda run: run.report.gpu_hours)
    yield numbers("good / GPU-second", lambda run: run.report.good_per_gpu_s)
    yield numbers("GPU-hours / M tokens out", lambda run: run.hours_per_million_tokens)
    if old.case.gpu_hour_price is not None:
        yield numbers("cost / M tokens out", lambda run: run.cost_per_million_tokens)
        yield numbers("cost of a month like this", month)
    for name in ("p50", "p95"):
        yield numbers(f"TTFT {name}", lambda run, name=name: run.report.ttft_s[name], latency)  # type: ignore[misc]
    for name in ("p50", "p95"):
        yield numbers(f"TPOT {name}", lambda run, name=name: run.report.tpot_s[name], latency)  # type: ignore[misc]
    for role in Role:
        was_count, count = old.report.changes[role], new.report.changes[role]
        yield row(f"changes of {role}", f"{was_count}", f"{count}", _signed(count - was_count))


def _mean_gpus(run: Run) -> float:
    return run.mean_gpus


def _attainment(run: Run) -> float:
    return run.report.attainment


def month(run: Run) -> float | None:
    """Return the cost of 730 hours of such traffic."""
    price = run.case.gpu_hour_price
    return None if price is None else run.mean_gpus * price * MONTH_HOURS


def verdict(found: Comparison) -> str:
    """Return the comparison in a sentence or two; a difference by chance is not called one."""
    new = found.runs[1]
    wanted = new.case.spec.slo.attainment
    reached = new.report.attainment
    kept = sum(pair[1].report.attainment >= wanted for pair in found.repeats)
    keeps = "keeps" if reached >= wanted else "misses"
    seeds = len(found.repeats)
    among = f" (kept in {kept} of {seeds} seeds)" if 0 < kept < seeds else ""
    return (
        f"{_gpus_words(found)}; attainment goes from {share(found.runs[0].report.attainment)} to"
        f" {share(reached)}{_attainment_words(found)} and {keeps} the {100.0 * wanted:g}%"
        f" wanted{among}."
    )


def _gpus_words(found: Comparison) -> str:
    old, new = found.runs
    spread, base = found.over_seeds(_mean_gpus), found.mean_of(0, _mean_gpus)
    more = new.mean_gpus - old.mean_gpus if spread is None else spread.mean
    if (spread is None and abs(more) < LEAST_GPUS) or (spread is not None and spread.none_at_all):
        return "The edit changes no GPUs on average"
    ends = percent(spread, base).removesuffix(": none shown")
    over = "" if spread is None else f", {ends} over {spread.seeds} seeds"
    if spread is not None and not spread.shown:
        return f"GPUs on average: {NO_DIFFERENCE} ({over.removeprefix(', ')})"
    takes = "more" if more > 0 else "fewer"
    change = relative(base, None if base is None else base + more) or "0%"
    price = new.case.gpu_hour_price
    cost = "" if price is None else f", {more * price * MONTH_HOURS:+,.0f} a month"
    return f"The edit takes {amount(abs(more))} {takes} GPUs on average ({change}{over}){cost}"


def _attainment_words(found: Comparison) -> str:
    spread = found.over_seeds(_attainment)
    if spread is None or spread.none_at_all or spread.shown:
        return ""
    return f" ({NO_DIFFERENCE})"


def to_json(found: Comparison) -> dict[str, Any]:
    """Return the comparison for programs."""
    old, new = found.runs
    return {
        "verdict": verdict(found),
        "restarts": restarts(found),
        "edits": edits(found),
        "notes": notes(found),
        "attainment_of_new_slo_at_old_sizes": found.kept_by_old,
        "difference": {
            "attainment": new.report.attainment - old.report.attainment,
            "mean_gpus": new.mean_gpus - old.mean_gpus,
            "most_gpus": new.most_gpus - old.most_gpus,
            "gpu_hours": new.report.gpu_hours - old.report.gpu_hours,
            "cost_per_month": _minus(month(new), month(old)),
        },
        "over_seeds": {
            name: None if spread is None else spread.to_json()
            for name, spread in (
                ("attainment", found.over_seeds(_attainment)),
                ("mean_gpus", found.over_seeds(_mean_gpus)),
                ("gpu_hours", found.over_seeds(lambda run: run.report.gpu_hours)),
                ("cost_per_month", found.over_seeds(month)),
            )
        },
        "budget": objective_costs.to_json(found.budget),
        **{
            side: {"file": name, **case_json(run.case), **run.to_json()}
            for side, name, run in zip(("old", "new"), found.names, found.runs, strict=True)
        },
    }


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _signed(difference: int) -> str:
    return f"{difference:+d}" if difference else ""


def relative(old: float | None, new: float | None) -> str:
    """Return the difference as a share of the old value."""
    if old is None or new is None:
        return UNKNOWN
    if old == 0.0:
        return "" if new == 0.0 else UNKNOWN
    text = f"{100.0 * (new / old - 1.0):+.1f}%"
    return "" if text in ("+0.0%", "-0.0%") else text


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if path == _TENANTS:
        value = {each["name"]: each for each in value}
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for key, each in value.items():
            found |= _flat(each, f"{path}.{key}" if path else str(key))
        return found
    return {path: str(value)}
