"""The core learns engines from running totals, and survives noise, restarts and drift."""

import functools
from dataclasses import replace
from random import Random

import pytest

from tandem_operator.core.learn.engine_models import EngineModels, StepModel, through
from tandem_operator.core.learn.least_squares import dot
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.learn.measurements import learn as learn_one
from tandem_operator.core.learn.roofline import Prior, roofline
from tandem_operator.core.observation import (
    Hardware,
    ModelShape,
    Observation,
    PodState,
    StartUp,
)
from tandem_operator.core.role import Role
from tests.unit.core.scene import NOW_S, leg, observe, pods, report, sample

# 40 ms and 0.2 ms per token; 10 ms and 0.05 ms per stream.
START_UP = StartUp(
    prefill=((32.0, 0.0464), (1024.0, 0.2448)), steps=((1.0, 0.01005), (64.0, 0.0132))
)


def told(seen: Observation, start_up: StartUp = START_UP) -> Observation:
    """Return the same, from engines that measured themselves."""
    return replace(seen, engines=tuple(replace(e, start_up=start_up) for e in seen.engines))


MAX_NUM_SEQS = 256
learn = functools.partial(learn_one, max_num_seqs=MAX_NUM_SEQS)


class Totals:
    """Running totals of one prefill and one decode engine with known laws."""

    def __init__(self, *, fixed_s: float = 0.05, token_s: float = 0.0003, noise: float = 0.05):
        self.fixed_s, self.token_s, self.noise = fixed_s, token_s, noise
        self.random = Random(3)
        self.now_s = NOW_S
        self.busy_s, self.requests, self.tokens, self.contexts = 0.0, 0, 0, 0.0
        self.itl_sum_s, self.itl_count, self.kv = 0.0, 0.0, 0.0

    def serve(self, requests: int, prompt: int) -> None:
        for _ in range(requests):
            work_s = self.fixed_s + self.token_s * prompt
            self.busy_s += work_s * self.random.uniform(1 - self.noise, 1 + self.noise)
            self.requests += 1
            self.tokens += prompt
            self.contexts += prompt * prompt / 2

    def stream(self, batch: float, itl_s: float, seconds: float = 5.0) -> None:
        self.itl_sum_s += batch * seconds
        self.itl_count += batch * seconds / itl_s

    def observe(self, *, revision: str = "r1") -> Observation:
        self.now_s += 5.0
        prefill, decode = self._pods(revision)
        engines = (
            sample(prefill, self.now_s),
            sample(
                decode,
                self.now_s,
                itl_sum_s=self.itl_sum_s,
                itl_count=self.itl_count,
                kv_usage_ratio=self.kv / 10_000,
                kv_capacity_tokens=10_000.0,
            ),
        )
        legs = [
            leg(
                prefill.name,
                busy_s=self.busy_s,
                requests=self.requests,
                prompt_tokens=self.tokens,
                prompt_token_contexts=self.contexts,
            )
        ]
        return observe(
            now_s=self.now_s,
            pods=(prefill, decode),
            engines=engines,
            routers=[report(now_s=self.now_s, legs=legs)],
        )

    @staticmethod
    def _pods(revision: str) -> tuple[PodState, PodState]:
        (prefill,) = pods(Role.PREFILL, 1, revision=revision)
        (decode,) = pods(Role.DECODE, 1, revision=revision)
        return prefill, decode


def service_s(models: EngineModels, tokens: float) -> float:
    return dot(models.service.coefficients(), (1.0, tokens, tokens * tokens / 2))


def test_prefill_service_time_is_learned_within_a_minute() -> None:
    totals, learned = Totals(), LearnedEngines()
    for i in range(13):
        totals.serve(6, 200 if i % 2 else 1500)
        learned = learn(learned, totals.observe())

    models = learned.engines["r1"]

    assert service_s(models, 1500) == pytest.approx(0.05 + 0.0003 * 1500, rel=0.1)
    assert service_s(models, 200) == pytest.approx(0.05 + 0.0003 * 200, rel=0.25)


def test_service_time_that_doubles_is_followed_within_two_minutes() -> None:
    totals, learned = Totals(), LearnedEngines()
    for _ in range(20):
        totals.serve(6, 1000)
        learned = learn(learned, totals.observe())
    before = service_s(learned.engines["r1"], 1000)

    totals.fixed_s, totals.token_s = 2 * totals.fixed_s, 2 * totals.token_s
    for _ in range(24):
        totals.serve(6, 1000)
        learned = learn(learned, totals.observe())

    assert service_s(learned.engines["r1"], 1000) > 1.7 * before


def test_one_outlier_hardly_moves_the_model() -> None:
    totals, learned = Totals(), LearnedEngines()
    for _ in range(20):
        totals.serve(6, 1000)
        learned = learn(learned, totals.observe())
    before = service_s(learned.engines["r1"], 1000)

    totals.busy_s += 4.0
    totals.serve(6, 1000)
    learned = learn(learned, totals.observe())

    assert service_s(learned.engines["r1"], 1000) < 1.1 * before


def test_totals_that_fell_teach_nothing() -> None:
    totals, learned = Totals(), LearnedEngines()
    for _ in range(5):
        totals.serve(6, 1000)
        learned = learn(learned, totals.observe())
    rows = learned.engines["r1"].service.line.rows

    totals.busy_s, totals.requests, totals.tokens, totals.contexts = 0.1, 1, 10, 50.0
    learned = learn(learned, totals.observe())

    assert learned.engines["r1"].service.line.rows == rows


def test_totals_of_more_streams_than_an_engine_runs_teach_nothing() -> None:
    totals, learned = Totals(), LearnedEngines()
    for _ in range(5):
        totals.stream(MAX_NUM_SEQS, 0.02)
        learned = learn(learned, totals.observe())
    rows = learned.engines["r1"].step.line.rows
    assert rows > 0

    totals.stream(2 * MAX_NUM_SEQS, 0.005)
    learned = learn(learned, totals.observe())
    assert learned.engines["r1"].step.line.rows == rows

    totals.stream(MAX_NUM_SEQS, 0.02)
    assert learn(learned, totals.observe()).engines["r1"].step.line.rows > rows


def test_a_clock_that_is_set_back_teaches_nothing() -> None:
    """The tokens made until it has caught up are not taken for the batch of one moment."""
    totals, learned = Totals(), LearnedEngines()

    def stream(looks: int) -> float:
        nonlocal learned
        for i in range(looks):
            batch = 2.0 + (i % 6) * 3.0
            totals.stream(batch, 0.012 + 0.001 * batch)
            learned = learn(learned, totals.observe())
        return learned.engines["r1"].step.itl_s(batch=24.0, kv_tokens=0.0)

    before_s = stream(24)
    totals.now_s -= 120.0

    assert stream(27) == pytest.approx(before_s, rel=0.02)


def test_decode_step_is_learned_over_batch() -> None:
    totals, learned = Totals(), LearnedEngines()
    for i in range(24):
        batch = 2.0 + (i % 6) * 3.0
        totals.stream(batch, 0.012 + 0.001 * batch)
        totals.kv = batch * 300
        learned = learn(learned, totals.observe())

    step = learned.engines["r1"].step

    assert step.itl_s(batch=4.0, kv_tokens=1200) == pytest.approx(0.016, rel=0.05)
    assert step.itl_s(batch=24.0, kv_tokens=7200) == pytest.approx(0.036, rel=0.1)


@pytest.mark.parametrize("count", [1, 20])
def test_many_pods_at_rest_do_not_forget_a_crest_sooner_than_one(count: int) -> None:
    def itl_s(batch: float) -> float:
        return 0.01 + 0.0003 * batch + 0.0005 * max(0.0, batch - 15.0)

    decode = pods(Role.DECODE, count, revision="r1")
    sums, counts = [0.0] * count, [0.0] * count
    learned, now_s = LearnedEngines(), NOW_S
    # Minutes on a crest, then three times as many of rest.
    batches = [8.0 + 4.0 * (i % 8) for i in range(80)] + [2.0 + i % 5 for i in range(240)]
    for batch in batches:
        now_s += 5.0
        engines = []
        for i, pod in enumerate(decode):
            own = batch + 0.1 * (i % 5)
            sums[i] += 5.0 * own
            counts[i] += 5.0 * own / itl_s(own)
            engines.append(sample(pod, now_s, itl_sum_s=sums[i], itl_count=counts[i]))
        learned = learn(learned, observe(now_s=now_s, pods=decode, engines=tuple(engines)))

    step = learned.engines["r1"].step

    assert step.itl_s(batch=35.0, kv_tokens=0.0) == pytest.approx(itl_s(35.0), rel=0.2)


def test_before_a_batch_varied_a_step_is_taken_for_weights_and_caches_read() -> None:
    def extrapolated_s(context_tokens: float) -> float:
        totals, learned = Totals(), LearnedEngines()
        for _ in range(10):
            totals.stream(80.0, 0.009)
            totals.kv = 80.0 * context_tokens
            learned = learn(learned, totals.observe())
        step = learned.engines["r1"].step
        assert step.itl_s(batch=80.0, kv_tokens=0.0) == pytest.approx(0.009, rel=0.01)
        return step.itl_s(batch=160.0, kv_tokens=0.0)

    # An 8B model in bf16 on one H200 takes 0.0126 s with 160 streams of 1,250 tokens.
    assert extrapolated_s(1_250.0) == pytest.approx(0.0126, rel=0.15)
    assert 0.009 < extrapolated_s(1_250.0) < extrapolated_s(12_000.0) < 0.018


def test_caches_that_are_seen_later_than_steps_count_whole_from_then_on() -> None:
    early = late = StepModel()
    for row in range(10):
        early = early.learn(itl_s=0.009, batch=80.0, kv_tokens=100_000.0, weight=1.0)
        seen = 100_000.0 if row >= 5 else 0.0
        late = late.learn(itl_s=0.009, batch=80.0, kv_tokens=seen, weight=1.0)

    assert late.prior() == pytest.approx(early.prior())


def test_step_time_that_grows_with_resident_kv_is_told_from_the_batch() -> None:
    totals, learned = Totals(), LearnedEngines()
    for i in range(120):
        batch, context = 2.0 + (i // 4 % 5) * 4.0, 200.0 + (i // 4 % 7) * 300.0
        totals.kv = batch * context
        totals.stream(batch, 0.01 + 0.0002 * batch + 1e-6 * batch * context)
        learned = learn(learned, totals.observe())

    step = learned.engines["r1"].step

    assert step.coefficients()[2] == pytest.approx(1e-6, rel=0.3)


def test_kv_capacity_comes_from_the_engine() -> None:
    learned = learn(LearnedEngines(), Totals().observe())

    assert learned.engines["r1"].kv_capacity_tokens == 10_000.0


def test_a_new_revision_starts_from_the_old_one_and_then_learns_for_itself() -> None:
    totals, learned = Totals(), LearnedEngines()
    for _ in range(10):
        totals.serve(6, 1000)
        learned = learn(learned, totals.observe())

    assert service_s(learned.of("r2"), 1000) == service_s(learned.engines["r1"], 1000)

    slow = Totals(fixed_s=0.15, token_s=0.0009)
    slow.now_s = totals.now_s
    for _ in range(30):
        slow.serve(4, 1000)
        learned = learn(learned, slow.observe(revision="r2"))
    assert service_s(learned.of("r2"), 1000) > 2.5 * service_s(learned.engines["r1"], 1000)


def test_two_routers_that_keep_one_pod_busy_do_not_count_its_time_twice() -> None:
    (prefill,) = pods(Role.PREFILL, 1)
    learned = LearnedEngines()
    for tick in range(1, 8):
        now_s = NOW_S + 5.0 * tick
        # The pod is saturated: both routers always have a request there; it serves 5 a second.
        legs = leg(prefill.name, busy_s=5.0 * tick, requests=12 * tick, prompt_tokens=12_000 * tick)
        routers = [report(now_s=now_s, router=name, legs=[legs]) for name in ("a", "b")]
        seen = observe(now_s=now_s, pods=(prefill,), routers=routers, router_pods=2)
        learned = learn(learned, seen)

    assert service_s(learned.engines["r1"], 1000) == pytest.approx(5.0 / 24, rel=0.05)


def test_nothing_is_known_before_the_first_row() -> None:
    models = LearnedEngines().of("r1")

    assert not models.service.known
    assert not models.step.known


def test_before_any_request_engines_are_as_they_measured_themselves() -> None:
    models = learn(LearnedEngines(), told(Totals().observe())).of("r1")

    assert models.service.known
    assert models.step.known
    assert service_s(models, 500.0) == pytest.approx(0.14)
    assert models.step.itl_s(batch=64.0, kv_tokens=0.0) == pytest.approx(0.0132)
    # What streams hold in the cache is read besides: 8e-6 of the weights a token (roofline).
    assert models.step.coefficients()[2] == pytest.approx(8e-8)


def test_the_first_requests_move_the_level_of_what_an_engine_measured_and_keep_its_shape() -> None:
    totals, learned = Totals(fixed_s=0.08, token_s=0.0004, noise=0.0), LearnedEngines()
    learned = learn(learned, told(totals.observe()))
    for _ in range(3):
        totals.serve(4, 500)
        learned = learn(learned, told(totals.observe()))

    fixed_s, token_s, _ = learned.engines["r1"].service.coefficients()

    assert service_s(learned.engines["r1"], 500.0) == pytest.approx(0.28, rel=0.02)
    assert fixed_s / token_s == pytest.approx(200.0, rel=0.02)


def test_what_streams_cost_is_known_before_batches_vary_where_the_engine_measured_it() -> None:
    def slope_share(start_up: StartUp) -> float:
        totals, learned = Totals(), LearnedEngines()
        for _ in range(10):
            totals.stream(32.0, 0.0116)
            totals.kv = 32.0 * 10.0
            learned = learn(learned, told(totals.observe(), start_up))
        fixed, slope, _ = learned.engines["r1"].step.coefficients()
        return slope / fixed

    assert slope_share(START_UP) == pytest.approx(0.005, rel=0.1)
    assert slope_share(StartUp()) < 0.001


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ((), None),
        (((1.0, 0.01),), None),
        (((1.0, 0.01), (1.0, 0.02)), None),
        (((10.0, 0.02), (110.0, 0.12)), (0.01, 0.001)),
        # By chance the longer was the quicker, or the shorter quicker than its share.
        (((10.0, 0.05), (110.0, 0.04)), (0.04, 0.0)),
        (((10.0, 0.001), (100.0, 0.1)), (0.0, 0.001)),
    ],
)
def test_two_points_give_a_cost_and_a_slope_that_are_never_negative(points, line) -> None:
    assert through(points) == (line if line is None else pytest.approx(line))


@pytest.mark.parametrize("batch", [24.0, 64.0])
def test_a_step_that_seems_to_cost_nothing_by_itself_is_not_believed(batch: float) -> None:
    chance = StartUp(steps=((1.0, 0.0001), (batch, 0.0122)))

    assert not learn(LearnedEngines(), told(Totals().observe(), chance)).of("r1").step.known


@pytest.mark.parametrize("rows", [0, 30])
def test_a_new_revision_is_as_its_own_engines_measured_themselves(rows: int) -> None:
    totals, learned = Totals(), learn(LearnedEngines(), told(Totals().observe()))
    for _ in range(rows):
        totals.serve(4, 500)
        totals.stream(8.0, 0.0125)
        learned = learn(learned, told(totals.observe()))
    slower = StartUp(
        prefill=((32.0, 0.0928), (1024.0, 0.4896)), steps=((1.0, 0.0201), (64.0, 0.0264))
    )

    learned = learn(learned, told(totals.observe(revision="r2"), slower))

    before, after = learned.of("r1"), learned.of("r2")
    assert service_s(after, 500.0) == pytest.approx(2.0 * service_s(before, 500.0), rel=0.01)
    steps = [models.step.itl_s(batch=8.0, kv_tokens=0.0) for models in (before, after)]
    assert steps[1] == pytest.approx(2.0 * steps[0], rel=0.01)


def test_one_short_row_does_not_outvote_what_an_engine_measured() -> None:
    totals = Totals()
    learned = learn(LearnedEngines(), told(totals.observe()))
    # Under way when the row began: a request and its tokens, and hardly any time.
    totals.busy_s, totals.requests, totals.tokens = 0.02, 1, 1000
    for _ in range(3):
        learned = learn(learned, told(totals.observe()))

    assert learned.of("r1").service.line.rows == 1
    assert service_s(learned.of("r1"), 1000.0) == pytest.approx(0.24)


def test_a_new_revision_is_known_before_its_engines_have_told() -> None:
    learned = learn(LearnedEngines(), told(Totals().observe()))
    only_decode = told(Totals().observe(revision="r2"), StartUp(steps=START_UP.steps))

    assert learn(learned, only_decode).of("r2").service.known


def test_an_engine_whose_measurement_tells_nothing_leaves_the_next_to_be_heard() -> None:
    seen = Totals().observe()
    chance = StartUp(steps=((1.0, 0.0001), (64.0, 0.0122)))

    learned = learn(learn(LearnedEngines(), told(seen, chance)), told(seen))

    assert learned.of("r1").step.known
    assert learn(LearnedEngines(), told(seen, StartUp())).of("r1").told_by == ()


PRIOR = Prior(service=(0.05, 0.0004, 1e-6), step=(0.02, 0.0001, 4e-9))


def test_what_cannot_be_measured_quickly_is_as_the_data_sheet_says() -> None:
    models = EngineModels()
    for role in Role:
        models = models.with_start_up(role, START_UP, PRIOR)

    fixed_s, token_s, attention_s = models.service.coefficients()
    assert (fixed_s, token_s) == pytest.approx((0.04, 0.0002))
    # Both were measured twice as fast as the data sheet has it.
    assert attention_s == pytest.approx(0.5e-6)
    assert models.step.coefficients() == pytest.approx((0.01, 0.00005, 2e-9))


def test_what_an_engine_says_of_its_model_and_hardware_reaches_the_pools_models() -> None:
    shape = ModelShape(1.5e10, 131072.0, 1.4e10, 524288.0, 16)
    start_up = replace(START_UP, shape=shape, hardware=Hardware("NVIDIA L4"))
    sheet = roofline(shape, Hardware("NVIDIA L4"))
    assert sheet is not None

    models = learn(LearnedEngines(), told(Totals().observe(), start_up)).of("r1")

    # Faster than an L4 in both: its third coefficients go along.
    assert models.service.coefficients()[2] == pytest.approx(
        sheet.service[2] * min(1.0, 0.0002 / sheet.service[1])
    )
    assert models.step.coefficients()[2] == pytest.approx(sheet.step[2] * 0.01 / sheet.step[0])


def test_an_engine_slower_than_its_data_sheet_has_no_slower_memory_for_it() -> None:
    quick = Prior(service=(0.01, 0.0001, 1e-6), step=(0.001, 0.0, 4e-9))

    models = EngineModels().with_start_up(Role.DECODE, START_UP, quick)

    assert models.service.coefficients()[2] == 1e-6
    assert models.step.coefficients()[2] == pytest.approx(4e-9)


def test_an_engine_that_measured_nothing_is_taken_for_what_its_data_sheet_says() -> None:
    models = EngineModels().with_start_up(Role.PREFILL, StartUp(), PRIOR)

    assert models.service.coefficients() == PRIOR.service
    assert models.step.coefficients() == PRIOR.step
    assert models.with_start_up(Role.PREFILL, StartUp(), PRIOR) is models


def test_the_next_engine_that_measured_itself_corrects_the_data_sheet_and_nothing_learned() -> None:
    guessed = EngineModels().with_start_up(Role.PREFILL, StartUp(), PRIOR)
    learned = LearnedEngines(engines={"r1": guessed})
    totals = Totals(noise=0.0)
    for _ in range(6):
        learned = learn(learned, totals.observe())
        totals.serve(4, 500)
    before = learned.of("r1")

    after = before.with_start_up(Role.PREFILL, START_UP, PRIOR)

    assert after.service.first != before.service.first
    assert service_s(after, 500.0) == pytest.approx(service_s(before, 500.0), rel=0.05)
    assert after.told_by == (Role.PREFILL,)


def test_what_the_data_sheet_said_follows_a_new_revision_whose_hardware_is_not_listed() -> None:
    models = EngineModels().with_start_up(Role.DECODE, START_UP, PRIOR).inherited()
    twice = StartUp(steps=((1.0, 0.0201), (64.0, 0.0264)))

    assert models.with_start_up(Role.DECODE, twice).step.coefficients()[2] == pytest.approx(4e-9)


def test_attention_is_part_of_what_tokens_cost_once_requests_have_come() -> None:
    prior = Prior(service=(0.04, 0.0002, 4e-7), step=(0.01, 0.00005, 1e-9))
    learned = LearnedEngines(
        engines={"r1": EngineModels().with_start_up(Role.PREFILL, START_UP, prior)}
    )
    totals = Totals(fixed_s=0.04, token_s=0.0003, noise=0.0)
    for _ in range(4):
        learned = learn(learned, totals.observe())
        totals.serve(4, 500)

    # 500 tokens with 250 before each in the mean: 0.0002 s + 250 x 4e-7 s.
    assert learned.of("r1").service.coefficients() == pytest.approx((0.04, 0.0003, 0.0))
