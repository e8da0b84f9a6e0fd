"""The late share before n servers: plain figures, and the laws that it keeps."""

from dataclasses import dataclass, replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.sizing.queueing import queue_late_share

ROUNDING = 1e-9


@dataclass(frozen=True)
class Queue:
    rate_rps: float = 5.0
    servers: int = 1
    service_s: float = 0.1
    cv2: float = 1.0
    patience_s: float = 0.2

    @property
    def late(self) -> float:
        return queue_late_share(
            self.rate_rps,
            self.servers,
            service_s=self.service_s,
            cv2=self.cv2,
            patience_s=self.patience_s,
        )


queues = st.builds(
    Queue,
    rate_rps=st.floats(0.01, 1000.0),
    servers=st.integers(1, 60),
    service_s=st.floats(0.005, 2.0),
    cv2=st.floats(0.0, 10.0),
    patience_s=st.floats(0.0, 10.0),
)


@given(queues)
def test_it_is_a_share(queue: Queue) -> None:
    assert 0.0 <= queue.late <= 1.0


@given(queues, st.floats(1.0, 3.0))
def test_more_load_never_makes_fewer_late(queue: Queue, factor: float) -> None:
    busier = replace(queue, rate_rps=factor * queue.rate_rps)

    assert busier.late >= queue.late - ROUNDING


@given(queues, st.integers(1, 20))
def test_more_servers_never_make_more_late(queue: Queue, more: int) -> None:
    larger = replace(queue, servers=queue.servers + more)

    assert larger.late <= queue.late + ROUNDING


@given(queues, st.floats(0.0, 10.0))
def test_more_patience_never_makes_more_late(queue: Queue, more_s: float) -> None:
    calmer = replace(queue, patience_s=queue.patience_s + more_s)

    assert calmer.late <= queue.late + ROUNDING


def test_no_request_is_late_without_arrivals() -> None:
    assert Queue(rate_rps=0.0, servers=0).late == 0.0


def test_all_are_late_without_a_server() -> None:
    assert Queue(servers=0).late == 1.0


def test_far_above_full_load_the_excess_is_late() -> None:
    assert Queue(rate_rps=40.0, servers=2, cv2=0.0, patience_s=1.0).late == pytest.approx(0.5)


def test_before_one_server_it_is_the_loss_of_an_mm1_queue_whose_wait_is_bounded() -> None:
    queue, load = Queue(rate_rps=6.0), 0.6
    waits = load * exp(-queue.patience_s * (1.0 - load) / queue.service_s)

    assert queue.late == pytest.approx((1.0 - load) * waits / (1.0 - load * waits))


@given(queues)
def test_what_is_late_moves_smoothly_through_full_load(queue: Queue) -> None:
    full_rps = queue.servers / queue.service_s
    below, above = (replace(queue, rate_rps=share * full_rps) for share in (0.995, 1.005))

    assert above.late - below.late < 0.05
