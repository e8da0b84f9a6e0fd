"""The same readings from a Prometheus server, each sample with its own age.

The server may be one that a pool's author named. So each query asks about a few pods: this bounds
the size of an answer. Answers are parsed off the loop. Nothing is tried twice: the next tick asks
again.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

from pydantic import Field, FiniteFloat, TypeAdapter

from tandem_contracts.names import TPOT_METRIC, TTFT_METRIC
from tandem_operator.core.observation import EngineSample, Latency, Quantiles
from tandem_operator.metrics.direct import budget_of
from tandem_operator.metrics.fetch import Fetcher
from tandem_operator.metrics.lenient import Lenient, parse_bounded
from tandem_operator.metrics.prometheus_access import ServerAccess
from tandem_operator.metrics.samples import (
    ENGINE_METRICS,
    ITL,
    ITL_SUM,
    RUNNING,
    TRANSFER,
    TTFT_BUCKET,
    Sample,
    buckets_of,
    engine_sample,
    quantiles,
    rank_of,
)
from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.metrics.source import (
    LATENCY_WINDOW_S,
    MAX_AGE_S,
    EngineTarget,
    Reading,
    Targets,
)

TIMEOUT_S = 3.0
"""Time for all queries of one tick: after it, the pods themselves may have to be read."""
ANSWER_LIMIT_BYTES = 1024 * 1024
PODS_AT_ONCE = 16
"""Pods per query: with eight ranks each, scraped by two jobs, they fit into one answer."""
MOST_SERIES, MOST_LABELS = 4096, 64

_SHARES = ("0.5", "0.95", "0.99")
_PART = "tandem_part"

# Labels of an engine's or a router's own samples, also where a target label took their name.
_OWN_LABELS = frozenset({"le", "engine", "model_name", "exported_engine", "exported_model_name"})

T = TypeVar("T")


class _Element(Lenient):
    metric: Annotated[dict[str, str], Field(max_length=MOST_LABELS)]
    value: tuple[FiniteFloat, str]


class _Data(Lenient):
    result: Annotated[list[_Element], Field(max_length=MOST_SERIES)]


class _Answer(Lenient):
    data: _Data


_ANSWER = TypeAdapter(_Answer)


@dataclass(frozen=True, slots=True)
class _Found:
    """A sample, and the server's own time of the answer."""

    sample: Sample
    clock_s: float


Query = Callable[[str], Awaitable[list[_Found]]]


def no_answer(timeout_s: float = TIMEOUT_S) -> Reading:
    """Return the reading of a server that does not answer."""
    return Reading.of_fault(f"Prometheus: no answer in {timeout_s:g} s", silent=True)


class PrometheusSource:
    """A `MetricSource` over one Prometheus server.

    Its samples must carry the target labels `namespace` and `pod`, as PodMonitors give them. If
    several jobs or servers scrape a pod, the newest scrape counts.
    """

    def __init__(self, server: ServerAccess, *, timeout_s: float = TIMEOUT_S) -> None:
        self._fetcher = Fetcher(
            server.session, headers=server.headers, authorities=server.authorities
        )
        self._url = f"{server.url.rstrip('/')}/api/v1/query"
        self._timeout_s = timeout_s

    async def read(
        self, targets: Targets, *, now_s: float, budget: ScrapeBudget | None = None
    ) -> Reading:
        """Return all targets' fresh samples; a server that does not answer is one problem."""
        ask = partial(self._ask, budget=budget or budget_of(targets))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await _read(ask, targets, now_s)
        except* TimeoutError:
            reading = no_answer(self._timeout_s)
        except* (NoAnswerError, ValueError) as failures:
            reading = Reading.of_fault(_first(failures))
        return reading

    async def _ask(self, query: str, *, budget: ScrapeBudget) -> list[_Found]:
        raw = await self._fetcher.whole(
            self._url,
            of="Prometheus",
            budget=budget,
            limit_bytes=ANSWER_LIMIT_BYTES,
            # The common limit of all queries ends this one first, so the words are always the same.
            limit_s=2 * self._timeout_s,
            query={"query": query},
        )
        return await budget.read(partial(_parsed, raw), of="Prometheus")


def _parsed(raw: bytes) -> list[_Found]:
    try:
        answer: _Answer = parse_bounded(_ANSWER, raw)
    except ValueError as error:
        raise NoAnswerError(f"Prometheus: its answer: {error}") from None
    return [_Found(_sample(each), each.value[0]) for each in answer.data.result]


def _sample(element: _Element) -> Sample:
    labels = dict(element.metric)
    try:
        value = float(element.value[1])
    except ValueError:
        # A server could put the received token into its answer.
        raise NoAnswerError("Prometheus: a value of its answer is no number") from None
    return Sample(name=labels.pop("__name__", ""), labels=labels, value=value)


async def _read(ask: Query, targets: Targets, now_s: float) -> Reading:
    parts = [
        targets.engines[start : start + PODS_AT_ONCE]
        for start in range(0, len(targets.engines), PODS_AT_ONCE)
    ]
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(_engines(ask, targets, part, now_s)) for part in parts]
        latency = tasks.create_task(_latency(ask, targets, now_s))
    engines = tuple(each for task in asked for each in task.result()[0])
    problems = tuple(each for task in asked for each in task.result()[1])
    found, more = latency.result()
    return Reading(engines, found, (*problems, *more))


async def _engines(
    ask: Query, targets: Targets, part: Sequence[EngineTarget], now_s: float
) -> tuple[tuple[EngineSample, ...], tuple[str, ...]]:
    chosen = _selector(targets.namespace, (engine.pod for engine in part))
    names = "|".join(re.escape(name).replace("\\", "\\\\") for name in ENGINE_METRICS)
    scrapes = await _newest(ask, f"timestamp({RUNNING}{{{chosen}}})")
    by_pod: dict[str, list[Sample]] = {}
    samples = [found.sample for found in await ask(f'{{__name__=~"{names}",{chosen}}}')]
    if not any(sample.name == ITL_SUM for sample in samples):
        samples += await _native_parts(ask, chosen)
    for sample in samples:
        pod = sample.labels.get("pod", "")
        scrape = scrapes.get((pod, rank_of(sample.labels)))
        if scrape is not None and scrape.gave(sample):
            by_pod.setdefault(pod, []).append(sample)
    ages = _ages_s(scrapes)
    engines, problems = [], []
    for engine in part:
        age_s = ages.get(engine.pod)
        if age_s is None:
            problems.append(f"{engine.pod}: Prometheus has no samples")
            continue
        if age_s > MAX_AGE_S:
            problems.append(f"{engine.pod}: the samples in Prometheus are {age_s:.0f} s old")
            continue
        load = engine_sample(
            by_pod.get(engine.pod, ()),
            pod=engine.pod,
            role=engine.role,
            sampled_s=now_s - age_s,
        )
        if load is None:
            problems.append(f"{engine.pod}: Prometheus shows no load of an engine")
        else:
            engines.append(load)
    return tuple(engines), tuple(problems)


async def _latency(
    ask: Query, targets: Targets, now_s: float
) -> tuple[Latency | None, tuple[str, ...]]:
    if not targets.routers:
        return None, ()
    chosen = _selector(targets.namespace, (router.pod for router in targets.routers))
    classic, native = f'{TTFT_BUCKET}{{le="+Inf",{chosen}}}', f"{TTFT_METRIC}{{{chosen}}}"
    ages = _ages_s(await _newest(ask, f"timestamp({classic}) or timestamp({native})"))
    missing = [router.pod for router in targets.routers if router.pod not in ages]
    if missing:
        return None, (f"{missing[0]}: Prometheus has no latency samples",)
    oldest_s = max(ages.values())
    if oldest_s > MAX_AGE_S:
        return None, (f"The latency samples in Prometheus are {oldest_s:.0f} s old",)
    found = {}
    for name in (TTFT_METRIC, TPOT_METRIC):
        window = await _quantiles(ask, name, chosen)
        if window is None:
            return None, (f"Prometheus has no window of {name} yet",)
        found[name] = window
    return Latency(now_s - oldest_s, ttft=found[TTFT_METRIC], tpot=found[TPOT_METRIC]), ()


async def _quantiles(ask: Query, name: str, chosen: str) -> Quantiles | None:
    """Return quantiles of a router's histogram on the server; `None` without a window."""
    bucket = f"{name}_bucket"
    window = f"increase({bucket}{{{chosen}}}[{LATENCY_WINDOW_S:.0f}s])"
    answer = await ask(f"sum by (le) (max by (pod, le) ({window}))")
    samples = [
        Sample(name=bucket, labels=each.sample.labels, value=each.sample.value) for each in answer
    ]
    buckets = buckets_of(samples, bucket)
    if buckets is not None:
        return quantiles(buckets)
    # A server that keeps native histograms has no series of buckets.
    window = f"sum(avg by (pod) (increase({name}{{{chosen}}}[{LATENCY_WINDOW_S:.0f}s])))"
    answer = await ask(
        _each_labelled({share: f"histogram_quantile({share}, {window})" for share in _SHARES})
    )
    values = {each.sample.labels.get(_PART): each.sample.value for each in answer}
    if not values:
        return None
    return Quantiles(*(_finite(values.get(share)) for share in _SHARES))


async def _native_parts(ask: Query, chosen: str) -> list[Sample]:
    """Return sums and counts of engines' histograms, if the server keeps native ones."""
    parts = {
        f"{name}_{part}": f"histogram_{part}({name}{{{chosen}}})"
        for name in (ITL, TRANSFER)
        for part in ("sum", "count")
    }
    found = [each.sample for each in await ask(_each_labelled(parts))]
    return [
        Sample(
            name=sample.labels[_PART],
            labels={name: text for name, text in sample.labels.items() if name != _PART},
            value=sample.value,
        )
        for sample in found
        if _PART in sample.labels
    ]


def _each_labelled(queries: Mapping[str, str]) -> str:
    """Return one query for the answers of several, distinguished by a label."""
    return " or ".join(
        f'label_replace({query}, "{_PART}", "{name}", "", "")' for name, query in queries.items()
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class _Scrape:
    """One page of a pod, as one job of one Prometheus server read it last.

    Attributes:
        target: the labels that the server added to all samples of that page.
        age_s: age on the server's own clock.
    """

    target: Mapping[str, str]
    age_s: float

    def gave(self, sample: Sample) -> bool:
        """Return whether the sample may be of this page: it has at least the labels of the page."""
        return self.target.items() <= sample.labels.items()


async def _newest(ask: Query, times: str) -> dict[tuple[str, str], _Scrape]:
    """Return the newest scrape of each pod and rank, by a query for times, if ages are readable."""
    newest: dict[tuple[str, str], _Scrape] = {}
    for found in await ask(times):
        sample, age_s = found.sample, found.clock_s - found.sample.value
        pod = sample.labels.get("pod")
        if pod is None or not math.isfinite(age_s):
            continue
        target = {name: text for name, text in sample.labels.items() if name not in _OWN_LABELS}
        key = (pod, rank_of(sample.labels))
        if key not in newest or age_s < newest[key].age_s:
            newest[key] = _Scrape(target, age_s)
    return newest


def _ages_s(scrapes: Mapping[tuple[str, str], _Scrape]) -> dict[str, float]:
    """Return the age of each pod's oldest rank."""
    ages: dict[str, float] = {}
    for (pod, _), scrape in scrapes.items():
        ages[pod] = max(ages.get(pod, 0.0), scrape.age_s)
    return ages


def _first(failures: BaseExceptionGroup[Exception]) -> str:
    """Return the first error of several queries."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


def _selector(namespace: str, pods: Iterable[str]) -> str:
    # Names of pods and namespaces are DNS labels: nothing in them needs escaping but dots.
    exact = "|".join(pod.replace(".", "\\\\.") for pod in pods)
    return f'namespace="{namespace}",pod=~"{exact}"'
