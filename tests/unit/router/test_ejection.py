"""The router ejects the right pods, for the right time, and no others."""

import random

import pytest

from tandem_engine.router.pods.ejection import Ejection
from tandem_engine.router.pods.health import Attempt, State, Why
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_routing.outstanding import Load

ONE = Load(tokens=10)


class Fleet:
    """Pods, a clock, and what they are put through."""

    def __init__(self, *, prefill: int = 0, decode: int = 0) -> None:
        self.now = 1000.0
        self.changes = 0
        self.pods = {
            name: Pod(Endpoint(name=name, role=role, host="h", port=1))
            for role, count in ((Role.PREFILL, prefill), (Role.DECODE, decode))
            for name in (f"{role.value[0]}{number}" for number in range(count))
        }
        self.ejection = Ejection(
            pods=self.pods.values, changed=self.changed, clock=lambda: self.now
        )
        self.told: list[tuple[str, Why]] = []
        self.ejection.ejected = lambda pod, why: self.told.append((pod.name, why))

    def changed(self) -> None:
        self.changes += 1

    def __getitem__(self, name: str) -> Pod:
        return self.pods[name]

    def begin(self, name: str, *, source: str | None = None, tokens: int = 100) -> Attempt:
        pod = self[name]
        pod.enter(ONE, self.now)
        return self.ejection.begin(
            pod,
            tokens=tokens,
            pulls=source is not None,
            source=None if source is None else self[source],
        )

    def end(self, attempt: Attempt) -> None:
        self.ejection.close(attempt)
        attempt.pod.leave(ONE, self.now)

    def serve(self, name: str, *, source: str | None = None, first_s: float = 0.01) -> None:
        attempt = self.begin(name, source=source)
        self.now += first_s
        self.ejection.first_token(attempt)
        self.ejection.well(attempt)
        self.end(attempt)

    def fail(self, name: str, *, source: str | None = None, times: int = 1) -> None:
        for _ in range(times):
            attempt = self.begin(name, source=source)
            self.ejection.failed(attempt)
            self.end(attempt)

    def leave(self, name: str) -> None:
        self.end(self.begin(name))

    def usable(self) -> set[str]:
        return {name for name, pod in self.pods.items() if pod.usable}

    def out_s(self, name: str) -> float:
        return self[name].health.until_s - self.now

    def let_back(self, name: str) -> None:
        """Let the ejection pass and the probe go well."""
        self.now = max(self.now, self[name].health.until_s)
        assert self[name] in self.ejection.due()
        self.ejection.probed(self[name], seconds=0.01)


def test_three_failures_in_a_row_eject_a_pod() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=2)
    assert "d0" in fleet.usable()

    fleet.fail("d0")

    assert fleet.usable() == {"d1", "d2"}
    assert fleet.told == [("d0", Why.FAILURES)]


def test_failures_with_answers_between_them_eject_by_their_share() -> None:
    fleet = Fleet(decode=3)
    for _ in range(5):
        fleet.serve("d1")
        fleet.serve("d0")
        fleet.fail("d0")

    assert fleet.told == [("d0", Why.FAILURE_SHARE)]


def test_a_share_of_failures_that_all_pods_have_ejects_none() -> None:
    fleet = Fleet(decode=3)
    for _ in range(20):
        for name in fleet.pods:
            fleet.serve(name)
            fleet.fail(name)

    assert len(fleet.usable()) == 3


def test_clients_that_leave_say_nothing_of_a_pod() -> None:
    fleet = Fleet(decode=3)

    for _ in range(50):
        fleet.leave("d0")

    assert "d0" in fleet.usable()


def test_a_refused_connection_ejects_at_once_however_many_are_out() -> None:
    fleet = Fleet(decode=2)

    for name in fleet.pods:
        fleet.ejection.eject(fleet[name], Why.REFUSED)

    assert fleet.usable() == set()
    assert fleet.out_s("d0") <= 0.5


def test_ejections_grow_and_have_an_end() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    lasted = [fleet.out_s("d0")]
    for _ in range(6):
        fleet.now = fleet["d0"].health.until_s
        fleet.ejection.probed(fleet["d0"], seconds=None)
        lasted.append(fleet.out_s("d0"))

    assert lasted == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_ejections_are_forgiven_with_time() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")
    fleet.serve("d0")
    for _ in range(200):
        fleet.now += 1.0
        fleet.ejection.look()

    fleet.fail("d0", times=2)
    assert "d0" in fleet.usable()
    fleet.fail("d0")
    assert fleet.out_s("d0") == 1.0


def test_a_pod_that_was_let_back_is_ejected_sooner_and_for_longer() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")
    fleet.serve("d0")

    fleet.fail("d0", times=2)

    assert "d0" not in fleet.usable()
    assert fleet.out_s("d0") == 2.0


def test_one_request_at_a_time_tries_a_pod_that_comes_back() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")
    assert "d0" in fleet.usable()

    trial = fleet.begin("d0")

    assert "d0" not in fleet.usable()
    fleet.ejection.first_token(trial)
    assert "d0" not in fleet.usable()
    fleet.ejection.well(trial)
    fleet.end(trial)
    assert "d0" in fleet.usable()
    assert not fleet.ejection.sick()


def test_a_trial_that_fails_puts_the_pod_out_for_longer() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")

    fleet.fail("d0")

    assert "d0" not in fleet.usable()
    assert fleet.out_s("d0") == 2.0


def test_a_trial_whose_client_leaves_is_left_to_the_next_request() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")

    fleet.leave("d0")

    assert "d0" in fleet.usable()
    assert fleet["d0"].health.state is State.TRIAL


def test_a_long_trial_ends_with_its_first_tokens() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")
    trial = fleet.begin("d0")
    trial.tokens_made = lambda: 16

    fleet.ejection.first_token(trial)
    fleet.ejection.look()

    assert fleet["d0"].health.state is State.IN


def test_a_pod_without_trial_requests_returns_by_the_tokens_of_the_probe() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")

    fleet.now += 31.0
    fleet.ejection.look()

    assert fleet["d0"].health.state is State.IN


def test_requests_from_before_say_nothing_in_a_trial() -> None:
    fleet = Fleet(decode=3)
    old = fleet.begin("d0")
    fleet.fail("d0", times=3)
    fleet.let_back("d0")

    fleet.ejection.first_token(old)
    fleet.ejection.well(old)
    fleet.end(old)

    assert fleet["d0"].health.state is State.TRIAL


@pytest.mark.parametrize(("pods", "most"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_slow_pods_are_never_more_than_half(pods: int, most: int) -> None:
    fleet = Fleet(decode=pods)
    names = list(fleet.pods)
    for _ in range(5):
        fleet.serve(names[-1])
    for name in names[:-1]:
        for _ in range(5):
            fleet.serve(name, first_s=3.0)
            fleet.serve(names[-1])
        fleet.ejection.look()

    assert len(fleet.usable()) >= pods - most


def test_the_only_pod_is_not_ejected_while_some_of_it_works() -> None:
    fleet = Fleet(decode=1)
    fleet.serve("d0")

    fleet.fail("d0", times=3)

    assert "d0" in fleet.usable()


@pytest.mark.parametrize("pods", [1, 2, 3])
def test_where_nothing_works_all_are_out_and_probed_at_once(pods: int) -> None:
    fleet = Fleet(decode=pods)

    for name in fleet.pods:
        fleet.fail(name, times=3)

    assert fleet.usable() == set()
    last = list(fleet.pods)[-1]
    assert fleet[last] in fleet.ejection.due()


def be_slow(fleet: Fleet) -> None:
    """Have d0 be slow three times, and once more without an answer."""
    for _ in range(3):
        fleet.serve("d0", first_s=1.2)
        fleet.serve("d1")
    fleet.begin("d0")
    fleet.now += 1.2
    fleet.serve("d2")
    fleet.ejection.look()


def test_a_slow_pod_is_ejected_before_it_has_answered() -> None:
    fleet = Fleet(decode=3)
    be_slow(fleet)

    assert fleet.told == [("d0", Why.SLOW)]


def test_one_standstill_is_one_however_many_requests_met_it() -> None:
    fleet = Fleet(decode=3)
    for _ in range(3):
        fleet.begin("d0")

    for _ in range(4):
        fleet.now += 0.3
        fleet.serve("d1")
        fleet.serve("d2")
    fleet.ejection.look()

    assert fleet.told == []


def test_a_pod_is_not_slow_next_to_peers_that_served_no_request_meanwhile() -> None:
    fleet = Fleet(decode=3)
    for _ in range(5):
        fleet.serve("d1")
        fleet.serve("d2")

    for _ in range(5):
        fleet.serve("d0", first_s=3.0)
        fleet.ejection.look()

    assert fleet.told == []


def test_a_pod_is_not_slow_where_a_peer_was_as_slow_at_that_time() -> None:
    fleet = Fleet(decode=3)
    for _ in range(5):
        for _ in range(3):
            fleet.serve("d1")
            fleet.serve("d2")
        fleet.serve("d0", first_s=3.0)
        fleet.serve("d1", first_s=2.0)
        fleet.ejection.look()

    assert fleet.told == []


def test_a_request_that_waited_behind_long_prompts_was_not_served_slowly() -> None:
    fleet = Fleet(prefill=2)
    for _ in range(4):
        long = fleet.begin("p0", tokens=30_000)
        for _ in range(3):
            fleet.begin("p0", tokens=10)
        for _ in range(10):
            fleet.now += 0.3
            fleet.serve("p1", first_s=0.05)
        for attempt in (long, *tuple(fleet["p0"].health.waiting)[1:]):
            fleet.ejection.first_token(attempt)
            fleet.ejection.well(attempt)
            fleet.end(attempt)
        fleet.ejection.look()

    assert fleet.told == []


def test_pods_that_are_all_slow_stay() -> None:
    fleet = Fleet(decode=3)
    for _ in range(5):
        for name in fleet.pods:
            fleet.serve(name, first_s=3.0)
    fleet.ejection.look()

    assert len(fleet.usable()) == 3


def test_a_long_prompt_is_not_slow() -> None:
    fleet = Fleet(prefill=2)
    for _ in range(5):
        fleet.serve("p1", first_s=0.1)
    for _ in range(4):
        fleet.begin("p0", tokens=30_000)

    fleet.now += 5.0
    fleet.serve("p1", first_s=0.1)
    fleet.ejection.look()

    assert "p0" in fleet.usable()


class BusyMachine:
    """Pods that share few cores: each serves its prompts in turn, and stands still now and then."""

    def __init__(self, fleet: Fleet, *, seed: int) -> None:
        self.fleet = fleet
        self.draw = random.Random(seed)
        self.queues: dict[str, list[tuple[Attempt, float]]] = {name: [] for name in fleet.pods}
        self.still_until_s = dict.fromkeys(fleet.pods, 0.0)
        self.served = 0

    def run(self, *, for_s: float, every_s: float = 0.05) -> None:
        ends_s = self.fleet.now + for_s
        while self.fleet.now < ends_s:
            self.fleet.now += every_s
            self._stand_still(every_s)
            if self.draw.random() < 2.0 * every_s:
                self._arrive()
            for name in self.queues:
                self._serve(name, every_s)
            self.fleet.ejection.look()
            for pod in self.fleet.ejection.due():
                self.fleet.ejection.probed(pod, seconds=0.1)

    def _stand_still(self, every_s: float) -> None:
        """Let one pod stand still every 20 s, and all pods every minute, for up to 3 s."""
        for names, times_s in (([self.draw.choice(list(self.queues))], 20.0), (self.queues, 60.0)):
            if self.draw.random() < every_s / times_s:
                for name in names:
                    self.still_until_s[name] = self.fleet.now + self.draw.uniform(0.2, 3.0)

    def _arrive(self) -> None:
        free = sorted(self.fleet.usable()) or list(self.queues)
        name = min(free, key=lambda name: len(self.queues[name]))
        tokens = round(self.draw.lognormvariate(5.0, 1.2))
        attempt = self.fleet.begin(name, tokens=tokens)
        self.queues[name].append((attempt, 0.05 + tokens * 0.001))

    def _serve(self, name: str, every_s: float) -> None:
        # What a core has for each of three pods that want it.
        left_s = every_s * self.draw.uniform(0.2, 1.5)
        while self.queues[name] and self.fleet.now >= self.still_until_s[name]:
            attempt, needs_s = self.queues[name][0]
            if needs_s > left_s:
                self.queues[name][0] = (attempt, needs_s - left_s)
                return
            left_s -= needs_s
            self.queues[name].pop(0)
            self.fleet.ejection.first_token(attempt)
            self.fleet.ejection.well(attempt)
            self.fleet.end(attempt)
            self.served += 1


@pytest.mark.parametrize("seed", [2, 11, 14, 22, 28])
def test_pods_of_a_busy_machine_are_not_slow_though_now_one_and_now_another_stands_still(
    seed: int,
) -> None:
    fleet = Fleet(prefill=3)
    machine = BusyMachine(fleet, seed=seed)

    machine.run(for_s=600.0)

    assert machine.served > 1000
    assert Why.SLOW not in {why for _, why in fleet.told}


def test_a_trial_of_a_slow_pod_that_is_far_slower_than_the_peers_fails() -> None:
    fleet = Fleet(decode=3)
    be_slow(fleet)
    fleet.let_back("d0")

    fleet.serve("d0", first_s=2.0)

    assert fleet["d0"].health.state is State.OUT


def test_one_slow_trial_says_nothing_against_a_pod_that_failed() -> None:
    fleet = Fleet(decode=3)
    for name in ("d1", "d2"):
        fleet.serve(name)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")

    fleet.serve("d0", first_s=2.0)

    assert "d0" in fleet.usable()


def test_a_pod_that_makes_no_token_while_its_peers_do_gives_up_what_it_has() -> None:
    fleet = Fleet(decode=3)
    fleet.serve("d1")
    attempt = fleet.begin("d0")
    given_up = []
    attempt.give_up = lambda: not given_up.append(1)

    for _ in range(6):
        fleet.now += 0.5
        fleet.serve("d1")
        fleet.ejection.look()

    assert fleet.told == [("d0", Why.NO_PROGRESS)]
    assert given_up
    assert attempt.given_up


def test_a_pod_whose_peers_make_no_token_either_keeps_its_work() -> None:
    fleet = Fleet(decode=3)
    for name in fleet.pods:
        fleet.serve(name)
    for name in fleet.pods:
        fleet.begin(name)

    for _ in range(20):
        fleet.now += 0.5
        fleet.ejection.look()

    assert len(fleet.usable()) == 3


def test_a_pod_that_streams_is_not_still_though_one_request_waits() -> None:
    fleet = Fleet(decode=3)
    fleet.serve("d1")
    fleet.begin("d0")

    for _ in range(20):
        fleet.now += 0.5
        fleet["d0"].health.progress_s = fleet.now
        fleet.serve("d1")
        fleet.ejection.look()

    assert "d0" in fleet.usable()


def unpullable(fleet: Fleet, name: str) -> None:
    for decode in ("d0", "d1", "d2", "d0"):
        fleet.serve(decode, source="p1")
        fleet.fail(decode, source=name)


def test_a_prefill_pod_whose_kv_fails_everywhere_is_to_blame() -> None:
    fleet = Fleet(prefill=3, decode=3)

    unpullable(fleet, "p0")

    assert fleet.told == [("p0", Why.KV)]


def test_a_decode_pod_that_fails_with_everybodys_kv_is_to_blame() -> None:
    fleet = Fleet(prefill=3, decode=3)
    for source in ("p0", "p1", "p2", "p0"):
        fleet.serve("d1", source=source)
        fleet.fail("d0", source=source)

    assert fleet.told == [("d0", Why.FAILURES)]


def test_the_only_prefill_pod_is_to_blame_where_decode_pods_serve_without_its_kv() -> None:
    fleet = Fleet(prefill=1, decode=1)
    for _ in range(4):
        fleet.fail("d0", source="p0")
        fleet.serve("d0")

    assert fleet.told == [("p0", Why.KV)]


def test_two_that_serve_all_others_are_neither_to_blame() -> None:
    fleet = Fleet(prefill=2, decode=2)
    for _ in range(10):
        fleet.serve("d0", source="p1")
        fleet.serve("d1", source="p0")
        fleet.fail("d0", source="p0")

    assert len(fleet.usable()) == 4


def test_a_decode_pod_is_not_to_blame_for_the_kv_of_a_pod_that_is_gone() -> None:
    fleet = Fleet(prefill=1, decode=2)
    fleet.ejection.eject(fleet["p0"], Why.REFUSED)

    fleet.fail("d0", source="p0", times=5)

    assert "d0" in fleet.usable()


def test_kv_that_was_not_pulled_clears_no_prefill_pod() -> None:
    fleet = Fleet(prefill=3, decode=3)
    unpullable(fleet, "p0")
    fleet.let_back("p0")

    fleet.serve("p0")

    assert "p0" not in fleet.usable()
    fleet.serve("d0", source="p0")
    assert "p0" in fleet.usable()


def test_a_prefill_pod_is_out_again_where_its_kv_still_fails() -> None:
    fleet = Fleet(prefill=3, decode=3)
    unpullable(fleet, "p0")
    fleet.let_back("p0")
    fleet.serve("d1")
    fleet.serve("p0")

    fleet.fail("d1", source="p0")

    assert fleet["p0"].health.state is State.OUT


def test_a_pod_that_fails_at_once_does_not_look_idle() -> None:
    fleet = Fleet(decode=2)

    fleet.fail("d0")

    assert fleet["d0"].weight > fleet["d1"].weight
    for _ in range(10):
        fleet.ejection.look()
    assert fleet["d0"].weight == fleet["d1"].weight


def named(fleet: Fleet) -> list[str]:
    return [sick.pod.name for sick in fleet.ejection.sick()]


def test_a_pod_ejected_once_that_passed_its_probe_is_not_named_while_no_request_comes() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    assert named(fleet) == ["d0"]

    fleet.let_back("d0")
    assert named(fleet) == []

    fleet.begin("d0")
    assert named(fleet) == ["d0"]


def test_a_pod_that_was_out_again_and_again_is_named_until_its_trial_went_well() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    fleet.let_back("d0")
    fleet.fail("d0")

    fleet.let_back("d0")
    assert named(fleet) == ["d0"]

    fleet.serve("d0")
    assert named(fleet) == []


def test_sick_pods_are_named_since_they_first_left() -> None:
    fleet = Fleet(decode=3)
    fleet.fail("d0", times=3)
    since = fleet.now
    fleet.let_back("d0")
    fleet.fail("d0")

    [sick] = fleet.ejection.sick()

    assert (sick.pod.name, sick.since_s, sick.why) == ("d0", since, Why.FAILURES)


def test_pulls_that_stand_still_end_no_request_that_pulls_nothing() -> None:
    fleet = Fleet(prefill=1, decode=2)
    for _ in range(5):
        fleet.serve("d0")
        fleet.serve("d1")
    ended: list[Attempt] = []
    waiting = [fleet.begin("d0", source="p0"), fleet.begin("d0")]
    for attempt in waiting:
        attempt.give_up = lambda attempt=attempt: not ended.append(attempt)

    def look_for(seconds: float) -> None:
        until_s = fleet.now + seconds
        while fleet.now < until_s:
            fleet.serve("d1")
            fleet.now += 0.49
            fleet.ejection.look()

    served_s = fleet["d0"].health.progress_s
    while not ended:
        look_for(0.5)
    assert ended == waiting[:1]
    # Its peers would take it for a pod that works.
    assert fleet["d0"].health.progress_s == served_s
    fleet.end(waiting[0])

    look_for(1.0)
    assert ended == waiting[:1]

    look_for(60.0)
    assert ended == waiting
