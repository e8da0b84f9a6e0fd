"""The effects of `spec.router.tenants` on the status of a pool."""

from dataclasses import replace

from tandem_operator.core.observation import TenantWindow
from tandem_operator.core.observe.arrivals import by_tenant
from tests.unit.workloads.cluster import report, running, status_of

TENANTS = {"router": {"tenants": {"named": [{"name": "acme"}, {"name": "idle"}]}}}
ACME = TenantWindow("acme", 120.0, finished=8, good=6, too_late=1, limited=3, output_tokens=600)


def told(*windows, spec=TENANTS):
    live = running(spec)
    return status_of(replace(live, routers=(report(tenants=windows),))).get("tenants")


def test_what_several_routers_say_of_a_tenant_adds_up():
    gone = replace(ACME, name="of-yesterday")

    found = by_tenant(("acme", "other"), [report(tenants=(ACME, gone)), report(tenants=(ACME,))])

    assert found == (
        replace(ACME, finished=16, good=12, too_late=2, limited=6, output_tokens=1200),
    )


def test_status_has_the_results_of_each_tenant_that_the_pool_names_and_of_the_others():
    idle = TenantWindow("idle", 120.0, 0, 0, 0, 0, 0)
    others = TenantWindow("other", 120.0, 0, 0, 0, limited=12, output_tokens=0)
    of_yesterday = replace(ACME, name="of-yesterday")

    quiet = {"requests": "0", "refused": "0", "outputTokens": "0"}
    assert told(ACME, idle, others, of_yesterday) == [
        {
            "name": "acme",
            "attainment": "75.0%",
            "requests": "0.09",
            "refused": "0.03",
            "outputTokens": "5",
        },
        {"name": "idle", **quiet},
        {"name": "other", **quiet, "requests": "0.1", "refused": "0.1"},
    ]


def test_what_a_full_queue_refused_of_a_tenant_counts_as_refused():
    shed = replace(ACME, shed=3)

    [acme] = told(shed)
    assert (acme["requests"], acme["refused"]) == ("0.09", "0.06")


def test_a_change_that_rounding_hides_changes_no_status():
    busy = replace(ACME, finished=120_000, good=119_000, output_tokens=36_000_000)
    more = replace(busy, finished=120_012, good=119_012, output_tokens=36_000_050)

    assert told(busy) == told(more)


def test_nothing_is_told_of_tenants_that_a_pool_does_not_have():
    assert told(ACME, spec={}) is None
    assert told() is None
