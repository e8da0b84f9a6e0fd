import pytest

from tandem_operator.workloads.observed.rivals import LEFT_ALONE_S, WATCHED_S, Rivals
from tandem_operator.workloads.world import Rival

AUTOSCALER = ("kube-controller-manager", "scale")
OURS = ("tandem-replicas", "")


def deployment(manager, subresource="", component="prefill"):
    fields = {"f:spec": {"f:replicas": {}}}
    entry = {"manager": manager, "subresource": subresource, "fieldsV1": fields}
    labels = {"tandem-inference.io/role": component}
    return {"kind": "Deployment", "metadata": {"labels": labels, "managedFields": [entry]}}


class Fought:
    """The rivals of one role, five seconds a look."""

    def __init__(self):
        self.rivals, self.now_s = Rivals(), 0.0

    def look(self, setter, *, ours=("prefill", "decode"), after_s=5.0):
        self.now_s += after_s
        found = self.rivals.look(
            [deployment(*setter)], ours=ours, is_ours=lambda _: setter == OURS, now_s=self.now_s
        )
        return found.get("prefill")

    def taken(self, manager="kubectl"):
        self.rivals.taken("prefill", manager, now_s=self.now_s)


def test_an_autoscaler_is_left_alone_at_first_sight():
    seen = Fought().look(AUTOSCALER)

    assert seen == Rival("a HorizontalPodAutoscaler", left_alone=True)


def test_a_manager_that_sets_a_count_once_or_twice_is_no_rival():
    fought = Fought()
    for _ in range(2):
        fought.look(("kubectl", "scale"))
        fought.taken()

    assert fought.look(OURS) is None


def test_a_count_set_a_third_time_within_ten_minutes_is_left_alone():
    fought = Fought()
    for _ in range(3):
        fought.look(("keda", ""))
        fought.taken("keda")

    assert fought.look(("keda", "")) == Rival("field manager keda", left_alone=True)


def test_turns_that_are_far_apart_are_no_fight():
    fought = Fought()
    for _ in range(10):
        fought.look(("kubectl", "scale"), after_s=400.0)
        fought.taken()

    assert fought.look(OURS) is None


def test_after_a_while_one_write_shows_whether_the_rival_is_gone():
    fought = Fought()
    fought.look(AUTOSCALER)

    tried = fought.look(AUTOSCALER, after_s=LEFT_ALONE_S)
    stood = fought.look(OURS)
    over = fought.look(OURS, after_s=WATCHED_S + 5)

    assert (tried.left_alone, stood.left_alone, over) == (False, False, None)


def test_a_rival_that_comes_back_after_that_write_is_left_alone_again():
    fought = Fought()
    fought.look(AUTOSCALER)
    fought.look(AUTOSCALER, after_s=LEFT_ALONE_S)
    fought.taken("kube-controller-manager")

    assert fought.look(AUTOSCALER).left_alone
    assert fought.look(AUTOSCALER, after_s=LEFT_ALONE_S - 10).left_alone


@pytest.mark.parametrize("ours", [(), ("decode",)])
def test_a_role_that_is_handed_over_has_no_rival(ours):
    fought = Fought()
    fought.look(AUTOSCALER)

    assert fought.look(AUTOSCALER, ours=ours) is None
