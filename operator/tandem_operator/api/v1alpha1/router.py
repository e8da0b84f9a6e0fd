"""`spec.router`: the routers, their deadlines and their limits."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.fleet import PodTemplate, Resources
from tandem_operator.api.v1alpha1.gateway import Gateway
from tandem_operator.api.v1alpha1.tenants import Tenants
from tandem_operator.api.values import (
    Count,
    Duration,
    ImageReference,
    duration_rule,
    duration_s,
    text_rule,
    url_rule,
)


def _timeout(name: str, example: str) -> Rule:
    return duration_rule(name=f"timeouts.{name}", example=example, least="10ms", most="24h")


class Timeouts(ApiModel):
    """Deadlines of a request's phases. An edit is in force at once and restarts nothing."""

    connect: Annotated[Duration, _timeout("connect", "1s")] = "1s"
    """Longest wait for a connection to an engine pod."""
    prefill: Annotated[Duration, _timeout("prefill", "60s")] = "60s"
    """Longest prefill at one pod."""
    first_token: Annotated[Duration, _timeout("firstToken", "120s")] = "120s"  # noqa: S105
    """Longest time from the whole request to its first token."""
    idle: Annotated[Duration, _timeout("idle", "60s")] = "60s"
    """Longest gap between two tokens of a stream."""
    request: Annotated[Duration, _timeout("request", "600s")] = "600s"
    """Longest time of a whole request."""
    head: Annotated[Duration, _timeout("head", "10s")] = "10s"
    """Longest time from the first byte of a request's head to its end."""
    body: Annotated[Duration, _timeout("body", "10s")] = "10s"
    """Longest time for a request's body. A large body may take longer, at 16 KiB a second."""

    rules: ClassVar = (
        Rule(
            expression="duration(self.firstToken) <= duration(self.request)",
            message=(
                "timeouts.firstToken must not be above timeouts.request; write for example"
                " firstToken: 120s and request: 600s"
            ),
            holds=lambda given: duration_s(given.first_token) <= duration_s(given.request),
            field=".firstToken",
        ),
    )


class Limits(ApiModel):
    """Limits of a router pod. Beyond them it answers 413, 429, 431 or 503.

    An edit restarts nothing, except an edit of inFlightBodyBytes.
    """

    body_bytes: Annotated[Count, Field(ge=1024, le=1_073_741_824)] = 4_194_304
    """Largest request body in bytes."""
    header_bytes: Annotated[Count, Field(ge=1024, le=1_048_576)] = 16_384
    """Largest request head in bytes."""
    concurrent_requests: Annotated[Count, Field(ge=1, le=1_000_000)] = 2000
    """Most requests inside one router pod, queued ones included."""
    queued_requests: Annotated[Count, Field(ge=0, le=1_000_000)] = 1000
    """Most requests that wait in one router pod for a prefill pod."""
    prefill_requests_per_pod: Annotated[Count, Field(ge=1, le=4096)] = 64
    """Most requests that one router pod has at one prefill pod. Further requests wait in the
    router."""
    prefill_tokens_per_pod: Annotated[Count, Field(ge=1, le=1_000_000)] = 4096
    """Most prompt tokens that one router pod has at one prefill pod beyond two requests. Short
    prompts share a pass. A long prompt waits in the router, where a more urgent one can still go
    first."""
    choices: Annotated[Count, Field(ge=1, le=1024)] = 16
    """Most answers that one request makes at once: its prompts times its `n`."""
    body_elements: Annotated[Count, Field(ge=1024, le=16_777_216)] = 262_144
    """Most values in the lists and objects of a body. Each token id of a prompt is one."""
    in_flight_body_bytes: Annotated[Count, Field(ge=1024, le=17_179_869_184)] = 134_217_728
    """Most bytes of all request bodies together inside one router pod. Beyond them it answers 503.
    Without router.resources the memory limit of router pods follows this value, and an edit
    restarts them."""

    rules: ClassVar = (
        Rule(
            expression="self.inFlightBodyBytes >= self.bodyBytes",
            message=(
                "limits.inFlightBodyBytes must not be below limits.bodyBytes; write for example"
                " bodyBytes: 4194304 and inFlightBodyBytes: 134217728"
            ),
            holds=lambda given: given.in_flight_body_bytes >= given.body_bytes,
            field=".inFlightBodyBytes",
        ),
    )


HeaderName = Annotated[
    str,
    Field(max_length=64),
    text_rule(
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$",
        message="cacheSaltHeader must be the name of a request header; write X-Tenant-Id",
    ),
]


class DecodeAdmission(StrEnum):
    """Treatment of requests while decode pods are full."""

    KEEP_TPOT = "KeepTPOT"
    UNLIMITED = "Unlimited"


class PrefillOverflow(StrEnum):
    """Treatment of requests that prefill pods would serve late."""

    DECODE_SLACK = "DecodeSlack"
    NEVER = "Never"


class PrefillPodChoice(StrEnum):
    """Choice of the prefill pod for a prompt."""

    PREFIX = "Prefix"
    LEAST_LOADED = "LeastLoaded"


class RequestLog(StrEnum):
    """Requests that get a line in the routers' logs."""

    OFF = "Off"
    MISSED = "Missed"
    ALL = "All"


class Tracing(ApiModel):
    """Spans of requests for OpenTelemetry, below the client's span and above those of vLLM."""

    endpoint: Annotated[
        str,
        Field(max_length=512),
        url_rule(name="tracing.endpoint", example="http://otel-collector.observability.svc:4318"),
    ]
    """Base URL of a collector that takes OTLP over HTTP, without /v1/traces."""
    sampling: Annotated[
        str,
        Field(max_length=8),
        text_rule(
            pattern="^(100|[0-9]{1,2}([.][0-9]{1,3})?)%$",
            message="tracing.sampling must be a percentage up to 100%; write for example 5%",
        ),
    ] = "5%"
    """Share of requests that get a span. If a client sends a traceparent, its sampled flag decides
    instead."""

    @property
    def sampling_ratio(self) -> float:
        """The share between 0 and 1."""
        return float(self.sampling[:-1]) / 100


class Router(ApiModel):
    """Routers of the pool: one OpenAI-compatible endpoint that pairs prefill with decode pods."""

    image: ImageReference | None = None
    """Image of the router pods. Without it: the one the operator was installed with."""
    min_replicas: Annotated[Count, Field(ge=1, le=32)] = 2
    """Fewest router pods. With a single router pod, its end breaks the streams that it passes
    on."""
    max_replicas: Annotated[Count, Field(ge=1, le=32)] | None = None
    """Most router pods. Tandem adds one when the routers use more than half of a core each. It
    removes one when fewer were enough for 5 minutes. Without it: as many as minReplicas."""
    resources: Resources = Resources()
    """Compute resources of the router container."""
    pod_template: PodTemplate | None = None
    """Further fields of the router pods."""
    timeouts: Timeouts = Timeouts()
    """Deadlines of a request's phases."""
    decode_admission: DecodeAdmission = DecodeAdmission.KEEP_TPOT
    """Treatment of requests that decode pods could serve only by slowing down every stream beyond
    the TPOT bound. KeepTPOT: they wait in the router until there is room. Unlimited: the router
    sends them, and all streams slow down. An edit restarts nothing."""
    prefill_overflow: PrefillOverflow = PrefillOverflow.DECODE_SLACK
    """Treatment of requests that prefill pods would serve late. DecodeSlack: a decode pod computes
    the prompt itself if all its streams keep the TPOT bound by a margin. Tandem then holds fewer
    spare prefill replicas. Never: they wait for prefill. An edit restarts nothing."""
    prefill_placement: PrefillPodChoice = PrefillPodChoice.PREFIX
    """Choice of the prefill pod for a prompt. Prefix: the pod that would finish it first, by its
    work and its cached part of the prompt. LeastLoaded: the pod with the fewest tokens to compute.
    An edit restarts nothing."""
    cache_salt_header: HeaderName | None = None
    """
    Request header that names a tenant, such as Authorization or X-Tenant-Id. Each tenant then has
    prefix caches of its own, so that response times do not reveal prompts of another tenant.
    Without it, all tenants share one cache. An edit restarts nothing.
    """
    tenants: Tenants | None = None
    """Fairness between clients, and limits for each. Without it, all requests of a class are served
    alike, whoever sends them."""
    request_log: RequestLog = RequestLog.OFF
    """Requests that get a line in the router's log when they end. Missed: those that were late,
    failed or were shed. All: every request. A request that is shed before its body is read gets no
    line. A line holds the request's id, times, token counts, pods and blame, and none of its
    content. An edit restarts nothing."""
    tracing: Tracing | None = None
    """Destination of the routers' spans of requests. Without it, routers pass traceparent on and
    send no spans. An edit restarts nothing."""
    limits: Limits = Limits()
    """Limits beyond which a router pod refuses requests."""
    gateway: Gateway | None = None
    """HTTPRoute of the pool, if pools.gatewayRoutes allows it."""

    rules: ClassVar = (
        Rule(
            expression="!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            message=(
                "router.maxReplicas must not be below router.minReplicas; write for example"
                " minReplicas: 2 and maxReplicas: 8"
            ),
            holds=lambda router: (
                router.max_replicas is None or router.min_replicas <= router.max_replicas
            ),
            field=".maxReplicas",
        ),
    )

    @property
    def most_replicas(self) -> int:
        """The largest number of routers in force."""
        return self.min_replicas if self.max_replicas is None else self.max_replicas
