from tandem_operator.kube.apply import ChildWriter
from tandem_operator.kube.client import ApiServerError

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "namespace": "team",
        "name": "tiny-router",
        "labels": {"app": "tiny"},
        "ownerReferences": [{"kind": "InferencePool", "uid": "uid", "controller": True}],
    },
    "spec": {"clusterIP": "None"},
}


class OneConflict:
    """An API server where `team-net` owns one field of every object."""

    def __init__(self, field):
        self.field, self.written = field, []

    async def get(self, *_, **__):
        return None

    async def apply(self, kind, body, *, manager, force=False, dry_run=False):
        claims = "app" in body["metadata"]["labels"]
        if claims and not force:
            cause = {
                "reason": "FieldManagerConflict",
                "field": self.field,
                "message": 'conflict with "team-net"',
            }
            raise ApiServerError(409, {"details": {"causes": [cause]}}, "PATCH")
        if not dry_run:
            self.written.append(body)
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "7"}}


async def applied(kube, writer, observed):
    return await writer.apply([SERVICE], observed, pool_uid="uid")


def as_stored(kube, *, version):
    (body,) = kube.written
    stored = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
    return {("Service", "tiny-router"): stored}


async def test_all_but_the_field_of_another_manager_is_written_and_told_while_it_stays():
    kube = OneConflict(".metadata.labels.app")
    writer = ChildWriter(kube)

    first = await applied(kube, writer, {})
    at_rest = await applied(kube, writer, as_stored(kube, version="7"))

    assert kube.written[0]["spec"] == {"clusterIP": "None"}
    assert "app" not in kube.written[0]["metadata"]["labels"]
    assert [each.conflicts[0].manager for each in first.left] == ["team-net"]
    assert (at_rest.written, at_rest.left) == ((), first.left)


async def test_a_change_of_the_object_asks_again_whether_the_field_is_free():
    kube = OneConflict(".metadata.labels.app")
    writer = ChildWriter(kube)
    await applied(kube, writer, {})

    again = await applied(kube, writer, as_stored(kube, version="8"))

    assert again.written == (("Service", "tiny-router"),)


async def test_the_strategy_of_a_rollout_is_taken_back_whole():
    kube = OneConflict(".spec.strategy.type")

    report = await applied(kube, ChildWriter(kube), {})

    assert [each.conflicts[0].field for each in report.taken] == ["spec.strategy.type"]
    assert report.left == ()
    assert kube.written[0]["spec"] == SERVICE["spec"]


async def test_a_field_that_is_not_found_in_the_child_is_told_and_nothing_is_written():
    kube = OneConflict(".spec.unheard[0]")

    report = await applied(kube, ChildWriter(kube), {})

    assert report.blocked == (
        "Service tiny-router: another manager owns spec.unheard[0] (by team-net)."
    )
    assert kube.written == []
