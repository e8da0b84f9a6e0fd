from datetime import UTC, datetime

import pytest

from tandem_contracts.names import ROLE_LABEL
from tandem_operator.metrics.scrape_targets import targets_of

NOW_S = 1_790_000_000.0


def stamp(ago_s):
    return datetime.fromtimestamp(NOW_S - ago_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    role="router",
    *,
    ready,
    changed_ago_s=500,
    state=None,
    ip="10.0.0.1",
    phase="Running",
    **metadata,
):
    """Return a pod whose process runs since 400 s; its Ready condition changed when it says."""
    running = {"running": {"startedAt": stamp(400)}}
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": stamp(changed_ago_s),
    }
    return {
        "metadata": {"name": "pod-1", "labels": {ROLE_LABEL: role}} | metadata,
        "status": {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {"startedAt": stamp(9000)}}},
                {"name": "router", "state": running if state is None else state},
            ],
        }
        | ({"podIP": ip} if ip else {}),
    }


def targets(found):
    return targets_of([found], namespace="ns", pool="tiny", now_s=NOW_S)


@pytest.mark.parametrize(
    "found",
    [
        pod(ready=True, changed_ago_s=300),
        pod(ready=False, changed_ago_s=60),
        pod(ready=True, changed_ago_s=300, deletionTimestamp=stamp(-200)),
        pod(ready=False, changed_ago_s=60, deletionTimestamp=stamp(-200)),
    ],
    ids=["Ready", "no longer Ready", "told to end", "draining"],
)
def test_a_router_whose_clients_may_still_be_there_is_asked(found):
    (router,) = targets(found).routers

    assert (router.pod, router.host) == ("pod-1", "10.0.0.1")


@pytest.mark.parametrize(
    "found",
    [
        pod(ready=False, changed_ago_s=500),
        pod(ready=False, changed_ago_s=400),
        pod(ready=False, state={"waiting": {"reason": "ImagePullBackOff"}}),
        pod(ready=False, changed_ago_s=60, state={"waiting": {"reason": "CrashLoopBackOff"}}),
        pod(ready=False, changed_ago_s=60, state={"terminated": {"exitCode": 1}}),
        pod(ready=False, changed_ago_s=60, phase="Failed"),
        pod(ready=False, changed_ago_s=60, ip=None),
        pod(ready=False, changed_ago_s=300, deletionTimestamp=stamp(60)),
    ],
    ids=[
        "never Ready",
        "never Ready since its restart",
        "no image",
        "crashed",
        "exited",
        "evicted",
        "no address",
        "on a lost node, past its grace period",
    ],
)
def test_a_router_that_can_have_no_client_is_not_waited_for(found):
    assert targets(found).routers == ()


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (pod("decode", ready=True), 1),
        (pod("decode", ready=False, changed_ago_s=60), 0),
        (pod("decode", ready=True, deletionTimestamp=stamp(-200)), 0),
        (pod("stranger", ready=True), 0),
    ],
)
def test_engines_are_asked_while_they_are_ready(found, asked):
    assert len(targets(found).engines) == asked


def test_a_pod_without_any_status_is_not_asked():
    bare = {"metadata": {"name": "pod-1", "labels": {ROLE_LABEL: "router"}}}

    assert targets(bare).routers == ()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(ready=True, changed_ago_s=300), (300, None)),
        (pod(ready=False, changed_ago_s=60), (None, 60)),
        (
            pod(
                ready=True,
                changed_ago_s=300,
                deletionTimestamp=stamp(-200),
                deletionGracePeriodSeconds=300,
            ),
            (None, 100),
        ),
    ],
    ids=["Ready", "no longer Ready", "told to end 100 s ago"],
)
def test_it_is_told_since_when_a_router_takes_new_clients_or_no_longer_does(found, expected):
    (router,) = targets(found).routers

    ago = [None if at_s is None else NOW_S - at_s for at_s in (router.opened_s, router.closed_s)]
    assert tuple(ago) == expected
