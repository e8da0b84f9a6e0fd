"""The traffic of a live pool from its routers: read from each, put on one clock, and merged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_contracts.names import ROUTER_INTERNAL_PORT
from tandem_operator.cli.command_errors import BadInputError, FailedError
from tandem_operator.cli.units import amount, duration, seconds, share
from tandem_operator.sim.traces.recorded import LoggedRequest, RecordedTrace, recorded
from tandem_operator.workloads.labels import selector_of
from tandem_operator.workloads.pool_names import ROUTER, PoolName

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube
    from tandem_operator.kube.port_forward import PodPort
    from tandem_operator.metrics.requests import Page

KEPT_S = 1200.0
FORBIDDEN, NOT_FOUND = 403, 404
# A smaller difference is the time of the answer, and not another clock.
SKEW_TOLERATED_S = 2.0
SHORT_BY_S = 5.0

OnProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """The requests that a pool's routers reported.

    Attributes:
        span_s: the length of the recorded time.
        notes: the missing parts, in sentences.
    """

    recorded: RecordedTrace
    routers: int
    span_s: float
    notes: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Return the record in a sentence."""
        trace = self.recorded.trace
        count = len(trace.requests)
        prompt = sum(r.prompt_tokens for r in trace.requests) / count
        output = sum(r.output_tokens for r in trace.requests) / count
        cached = self.recorded.cached_share
        cached_text = "" if cached is None else f" ({share(cached)} of them cached)"
        of = "1 router" if self.routers == 1 else f"{self.routers} routers"
        return (
            f"{count:,} requests in {duration(self.span_s)} ({amount(count / self.span_s)}/s) by"
            f" {of}, on average {prompt:,.0f} tokens in{cached_text}, {output:,.0f} out"
        )


@dataclass(frozen=True, slots=True)
class _RouterPages:
    """One router's requests on this process's clock, and the time since which they are complete."""

    router: str
    complete_since_s: float
    seen: tuple[LoggedRequest, ...]


def since_of(option: str, text: str) -> float:
    """Return the length of the past in an option.

    Raises:
        BadInputError: more than routers keep.
    """
    value_s = seconds(option, text)
    if value_s > KEPT_S:
        raise BadInputError(f"{option} must be at most 20m, which routers keep; got {text!r}")
    return value_s


async def record_pool(
    kube: "Kube",
    *,
    namespace: str,
    pool: str,
    since_s: float,
    now_s: float,
    on_progress: OnProgress,
) -> Recording:
    """Return the requests of the last `since_s` seconds; `on_progress` is called for each page.

    Raises:
        FailedError: no router reports any request.
        ApiServerError: the API server refuses.
    """
    from tandem_operator.kube.kinds import POD  # noqa: PLC0415

    name = PoolName(namespace=namespace, name=pool, uid="")
    selector = ",".join(f"{key}={value}" for key, value in selector_of(name, ROUTER).items())
    pods = [
        str(pod["metadata"]["name"])
        for pod in await kube.list(POD, namespace=namespace, selector=selector)
        if (pod.get("status") or {}).get("phase") == "Running"
    ]
    if not pods:
        raise FailedError(
            f"no router of {namespace}/{pool} runs; look at `kubectl get pods -n {namespace} -l"
            f" {selector}`"
        )
    found: list[_RouterPages] = []
    silent: list[str] = []
    for pod in sorted(pods):
        try:
            found.append(await _ask(kube, namespace, pod, now_s=now_s, on_progress=on_progress))
        except FailedError as error:
            silent.append(f"{error}; its requests are missing.")
    if not found:
        raise FailedError(silent[0].removesuffix("; its requests are missing."))
    return _merged(pool, found, silent, since_s=since_s, now_s=now_s)


async def _ask(
    kube: "Kube", namespace: str, pod: str, *, now_s: float, on_progress: OnProgress
) -> _RouterPages:
    from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415
    from tandem_operator.kube.port_forward import ForwardError, forwarded  # noqa: PLC0415

    pages: list[Page] = []
    try:
        async with forwarded(kube, namespace=namespace, pod=pod, port=ROUTER_INTERNAL_PORT) as port:
            after: int | None = 0
            while after is not None:
                page = await _page(port, pod, after)
                pages.append(page)
                after = page.next
                on_progress(float(len(page.requests)))
    except ForwardError as error:
        raise FailedError(f"router {pod} does not answer: {error}") from None
    except ApiServerError as error:
        if error.status == FORBIDDEN:
            raise FailedError(
                f"you have no right to forward ports to the routers in namespace {namespace}; ask"
                " for `get` and `create` of pods/portforward, which the role `edit` has"
            ) from None
        raise FailedError(f"router {pod} cannot be reached: {error.message}") from None
    skew_s = now_s - pages[0].now_s
    shift_s = skew_s if abs(skew_s) > SKEW_TOLERATED_S else 0.0
    return _RouterPages(
        router=pod,
        complete_since_s=pages[-1].complete_since_s + shift_s,
        seen=tuple(
            LoggedRequest(
                at_s=each.arrived_s + shift_s,
                prompt_tokens=each.prompt_tokens,
                cached_tokens=each.cached_tokens,
                output_tokens=each.output_tokens,
                whole=each.whole,
                marks=each.marks,
                tenant=each.tenant,
            )
            for page in pages
            for each in page.requests
        ),
    )


async def _page(port: "PodPort", pod: str, after: int) -> "Page":
    from tandem_operator.metrics.requests import parse_page  # noqa: PLC0415

    status, body = await port.get(f"/requests?after={after}")
    if status == NOT_FOUND:
        raise FailedError(
            f"router {pod} is too old to report single requests; update the operator, which"
            " replaces it"
        )
    try:
        page = parse_page(body)
    except ValueError as error:
        raise FailedError(f"router {pod} answers {status} with something else: {error}") from None
    if page.next is not None and page.next <= after:
        raise FailedError(f"router {pod} returns the same page repeatedly")
    return page


def _merged(
    pool: str, found: Sequence[_RouterPages], silent: Sequence[str], *, since_s: float, now_s: float
) -> Recording:
    asked_s = now_s - since_s
    start_s = max(asked_s, min(each.complete_since_s for each in found))
    seen = [each for one in found for each in one.seen if each.at_s >= start_s]
    made = recorded(f"{pool}, last {duration(since_s)}", seen, since_s=start_s)
    if made is None:
        saw = f"of {len(seen)} requests none got a whole answer" if seen else "no request came"
        raise FailedError(
            f"there is no traffic to record: {saw} in the last {duration(since_s)} at the routers"
            f" of {pool}"
        )
    notes = [*silent]
    if start_s > asked_s + SHORT_BY_S:
        notes.append(
            f"the routers report only the last {duration(now_s - start_s)}; they started since, or"
            " had no room for more."
        )
    notes += [
        f"router {each.router} reports only the last {duration(now_s - each.complete_since_s)};"
        " requests of an earlier router are missing."
        for each in found
        if each.complete_since_s > start_s + SHORT_BY_S
    ]
    if made.drawn:
        are = "request has" if made.drawn == 1 else "requests have"
        notes.append(
            f"{made.drawn:,} {are} no whole answer (failed, shed, left or still served); the"
            " lengths of these answers are drawn from the others."
        )
    return Recording(
        recorded=made, routers=len(found), span_s=max(1.0, now_s - start_s), notes=tuple(notes)
    )
