"""A deleted pool leaves nothing behind. Runs last: it ends the pool of all the other tests."""

from benchmarks.load.plan import Lengths, Traffic
from e2e.commands import kubectl
from e2e.demo.setup import OPERATOR_NAMESPACE
from e2e.disturb import load_while
from e2e.pools import KIND, Pool, wait_until
from tandem_operator.workloads.builders.pod_templates import GRACE_PERIOD_S


def test_a_busy_pool_whose_operator_is_gone_ends_within_its_grace_period(pool: Pool, url):
    scale = ("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE)
    kubectl(*scale, "--replicas=0")
    traffic = Traffic(
        name="teardown",
        rate_rps=2.0,
        duration_s=15.0,
        prompt_tokens=Lengths(50, 200),
        output_tokens=Lengths(200, 400),
    )

    aftermath = load_while(
        lambda: kubectl("delete", KIND, pool.name, "-n", pool.namespace),
        url=url,
        model="tiny",
        traffic=traffic,
        after_s=8.0,
    )

    assert not pool.exists()
    wait_until(
        lambda: not pool.children(), within_s=GRACE_PERIOD_S + 30.0, what="the end of every child"
    )
    # Later ones find no pool any more; what the platform makes of them is its own affair.
    before = [record for record in aftermath.records if record.sent_s < aftermath.disturbed_s]
    assert len(before) > 8
    assert [record for record in before if record in aftermath.hung] == []
    kubectl(*scale, "--replicas=1")
