"""The same readings from a Prometheus server, each sample with its own age.

The client library is synchronous and without a limit of its own, so it runs in threads that this
source owns, behind a hard limit, without retries: the next tick asks again.
"""

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from tandem_operator.core.observation import EngineSample, Latency
from tandem_operator.metrics.samples import (
    ENGINE_METRICS,
    RUNNING,
    TPOT_BUCKET,
    TTFT_BUCKET,
    Sample,
    buckets_of,
    engine_sample,
    quantiles,
    rank_of,
)
from tandem_operator.metrics.source import LATENCY_WINDOW_S, MAX_AGE_S, Reading, Targets

REQUEST_TIMEOUT_S = 3
HARD_TIMEOUT_S = 10.0
THREADS = 2

# Labels of an engine's or a router's own samples, also where a target label took their name.
_OWN_LABELS = frozenset({"le", "engine", "model_name", "exported_engine", "exported_model_name"})

Query = Callable[[str], list[dict[str, Any]]]


class PrometheusSource:
    """A `MetricSource` over one Prometheus server.

    Its samples must carry the target labels `namespace` and `pod`, as PodMonitors give them. A pod
    that several jobs or servers scrape is read from the scrape that is newest.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        request_timeout_s: int = REQUEST_TIMEOUT_S,
        hard_timeout_s: float = HARD_TIMEOUT_S,
    ) -> None:
        self._client = PrometheusConnect(
            url=url.rstrip("/"),
            headers=headers or {},
            retry=Retry(total=0),
            timeout=request_timeout_s,
        )
        self._hard_timeout_s = hard_timeout_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="prometheus")

    async def read(self, targets: Targets, *, now_s: float) -> Reading:
        """All targets' samples that are fresh; a server that does not answer is one problem."""
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, _read, self._ask, targets, now_s)
        try:
            return await asyncio.wait_for(asked, self._hard_timeout_s)
        except TimeoutError:
            problem = f"no answer in {self._hard_timeout_s:g} s"
        except (PrometheusApiClientException, requests.RequestException, ValueError) as error:
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        return Reading((), None, (f"Prometheus: {problem}",))

    def close(self) -> None:
        """Let go of the connections; a thread that still waits ends by its own time limit."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _ask(self, query: str) -> list[dict[str, Any]]:
        try:
            answer = self._client.custom_query(query)
        except (KeyError, TypeError) as error:
            # The library indexes whatever a server answered.
            raise ValueError(f"the answer has no data: {error!r}") from None
        if not isinstance(answer, list):
            raise ValueError("the answer is not a list of samples")
        return answer


def _read(ask: Query, targets: Targets, now_s: float) -> Reading:
    engines, problems = _engines(ask, targets, now_s)
    latency, more = _latency(ask, targets, now_s)
    return Reading(engines, latency, (*problems, *more))


def _engines(
    ask: Query, targets: Targets, now_s: float
) -> tuple[tuple[EngineSample, ...], tuple[str, ...]]:
    if not targets.engines:
        return (), ()
    chosen = _selector(targets.namespace, (engine.pod for engine in targets.engines))
    names = "|".join(re.escape(name).replace("\\", "\\\\") for name in ENGINE_METRICS)
    scrapes = _newest(ask, RUNNING, chosen)
    by_pod: dict[str, list[Sample]] = {}
    for element in ask(f'{{__name__=~"{names}",{chosen}}}'):
        sample = _sample(element)
        pod = sample.labels.get("pod", "")
        scrape = scrapes.get((pod, rank_of(sample.labels)))
        if scrape is not None and scrape.gave(sample):
            by_pod.setdefault(pod, []).append(sample)
    ages = _ages_s(scrapes)
    engines, problems = [], []
    for engine in targets.engines:
        age_s = ages.get(engine.pod)
        if age_s is None:
            problems.append(f"{engine.pod}: Prometheus has no samples")
            continue
        if age_s > MAX_AGE_S:
            problems.append(f"{engine.pod}: the samples in Prometheus are {age_s:.0f} s old")
            continue
        found = engine_sample(
            by_pod.get(engine.pod, ()),
            pod=engine.pod,
            role=engine.role,
            sampled_s=now_s - age_s,
        )
        if found is None:
            problems.append(f"{engine.pod}: Prometheus shows no load of an engine")
        else:
            engines.append(found)
    return tuple(engines), tuple(problems)


def _latency(ask: Query, targets: Targets, now_s: float) -> tuple[Latency | None, tuple[str, ...]]:
    if not targets.routers:
        return None, ()
    chosen = _selector(targets.namespace, (router.pod for router in targets.routers))
    ages = _ages_s(_newest(ask, TTFT_BUCKET, f'le="+Inf",{chosen}'))
    missing = [router.pod for router in targets.routers if router.pod not in ages]
    if missing:
        return None, (f"{missing[0]}: Prometheus has no latency samples",)
    oldest_s = max(ages.values())
    if oldest_s > MAX_AGE_S:
        return None, (f"The latency samples in Prometheus are {oldest_s:.0f} s old",)
    found = {}
    for name in (TTFT_BUCKET, TPOT_BUCKET):
        window = f"increase({name}{{{chosen}}}[{LATENCY_WINDOW_S:.0f}s])"
        answer = ask(f"sum by (le) (max by (pod, le) ({window}))")
        samples = [
            Sample(name=name, labels=each.labels, value=each.value) for each in map(_sample, answer)
        ]
        buckets = buckets_of(samples, name)
        if buckets is None:
            return None, (f"Prometheus has no window of {name} yet",)
        found[name] = quantiles(buckets)
    return Latency(now_s - oldest_s, ttft=found[TTFT_BUCKET], tpot=found[TPOT_BUCKET]), ()


@dataclass(frozen=True, slots=True)
class _Scrape:
    """One page of a pod as one job of one Prometheus server read it last.

    Attributes:
        target: the labels that the server gave all samples of that page.
        age_s: on the server's own clock.
    """

    target: Mapping[str, str]
    age_s: float

    def gave(self, sample: Sample) -> bool:
        """Whether the sample may be of this page: it has at least the labels of all of them."""
        return self.target.items() <= sample.labels.items()


def _newest(ask: Query, metric: str, chosen: str) -> dict[tuple[str, str], _Scrape]:
    """The newest scrape of each pod and rank that has the metric. Unreadable ages are absent."""
    newest: dict[tuple[str, str], _Scrape] = {}
    for element in ask(f"timestamp({metric}{{{chosen}}})"):
        sample = _sample(element)
        age_s = float(element["value"][0]) - sample.value
        pod = sample.labels.get("pod")
        if pod is None or not math.isfinite(age_s):
            continue
        target = {name: text for name, text in sample.labels.items() if name not in _OWN_LABELS}
        key = (pod, rank_of(sample.labels))
        if key not in newest or age_s < newest[key].age_s:
            newest[key] = _Scrape(target, age_s)
    return newest


def _ages_s(scrapes: Mapping[tuple[str, str], _Scrape]) -> dict[str, float]:
    """Age of each pod's oldest rank."""
    ages: dict[str, float] = {}
    for (pod, _), scrape in scrapes.items():
        ages[pod] = max(ages.get(pod, 0.0), scrape.age_s)
    return ages


def _sample(element: dict[str, Any]) -> Sample:
    try:
        labels = dict(element["metric"])
        value = float(element["value"][1])
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"an element of the answer has no {error}") from None
    return Sample(name=labels.pop("__name__", ""), labels=labels, value=value)


def _selector(namespace: str, pods: Iterable[str]) -> str:
    # Names of pods and namespaces are DNS labels: nothing in them needs escaping but dots.
    exact = "|".join(pod.replace(".", "\\\\.") for pod in pods)
    return f'namespace="{namespace}",pod=~"{exact}"'
