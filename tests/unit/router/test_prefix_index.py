"""The router remembers which pod should have which beginnings of prompts, in bounded room."""

import tracemalloc
from array import array

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.sim.engines.prefill_pod import PrefixCache
from tandem_routing.prefix_index import MOST_MARKS, Prefix, PrefixIndex

TOKENS = 100.0


def prefix(*marks: int) -> Prefix:
    return Prefix(marks, TOKENS)


def computed(index: PrefixIndex[str], pod: str, *marks: int) -> None:
    index.sent(pod, prefix(*marks))
    index.ended(pod, prefix(*marks), computed=True)


def test_an_empty_index_knows_of_nothing() -> None:
    index: PrefixIndex[str] = PrefixIndex()

    assert index.held(prefix(1, 2)) == {}
    assert index.marks == 0


def test_each_pod_has_as_much_as_it_was_sent_from_the_beginning_on() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    computed(index, "a", 1, 2, 3)
    computed(index, "b", 1, 7)
    computed(index, "c", 2, 3)

    assert index.held(prefix(1, 2, 3, 4)) == {"a": 300, "b": 100}
    assert index.held(prefix(9, 1)) == {}
    assert index.held(prefix()) == {}


def test_a_prompt_that_is_under_way_is_found_and_one_that_fails_leaves_nothing() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.sent("a", prefix(1, 2))
    index.sent("a", prefix(1, 3))

    assert index.held(prefix(1, 2)) == {"a": 200}

    index.ended("a", prefix(1, 2), computed=False)
    assert index.held(prefix(1, 2)) == {"a": 100}
    index.ended("a", prefix(1, 3), computed=False)
    assert index.held(prefix(1, 2)) == {}
    assert index.marks == 0


def test_what_fails_takes_nobodys_place() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.capacity_tokens = 300
    computed(index, "a", 1, 2, 3)

    index.sent("a", prefix(*range(10, 20)))
    index.ended("a", prefix(*range(10, 20)), computed=False)

    assert index.held(prefix(1, 2, 3)) == {"a": 300}


def test_a_full_pod_loses_what_was_used_longest_ago_its_end_first() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.capacity_tokens = 400
    computed(index, "a", 1, 2)
    computed(index, "a", 3, 4)
    assert index.loss("a", TOKENS) > 0
    computed(index, "a", 1, 2)

    computed(index, "a", 5)

    assert index.held(prefix(3, 4)) == {"a": 100}
    assert index.held(prefix(1, 2)) == {"a": 200}


def test_a_pod_with_room_loses_nothing_and_a_fresh_use_is_the_larger_loss() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.capacity_tokens = 200
    computed(index, "a", 1, 2)
    computed(index, "b", 3, 4)

    assert index.loss("new", TOKENS) == 0
    assert 0 < index.loss("a", TOKENS) < index.loss("b", TOKENS)
    index.capacity_tokens = 300
    assert index.loss("b", TOKENS) == 0


def test_a_pod_that_is_gone_is_forgotten_whole_whatever_still_ends_there() -> None:
    index: PrefixIndex[str] = PrefixIndex()
    computed(index, "a", 1, 2)
    computed(index, "b", 1)
    index.sent("a", prefix(1, 2, 3))

    index.forget("a")
    index.ended("a", prefix(1, 2, 3), computed=True)

    assert index.held(prefix(1, 2, 3)) == {"b": 100}
    assert index.marks == 1
    computed(index, "c", 1, 2)
    assert index.held(prefix(1, 2)) == {"b": 100, "c": 200}


prompts = st.builds(
    lambda first, length: tuple(range(10 * first, 10 * first + length)),
    st.integers(0, 6),
    st.integers(1, 9),
)


@given(st.lists(prompts, max_size=40), st.integers(3, 30))
def test_it_is_right_of_an_engine_that_does_one_prompt_after_the_other(
    sent: list[tuple[int, ...]], blocks: int
) -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.capacity_tokens = blocks * TOKENS
    engine = PrefixCache(blocks=blocks)

    for marks in sent:
        assert index.held(prefix(*marks)).get("a", 0) == TOKENS * engine.hits(marks)
        computed(index, "a", *marks)
        engine.keep(marks)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("sent"), st.sampled_from("abc"), prompts),
            st.tuples(st.sampled_from(("well", "ill")), st.integers(0, 50), st.none()),
            st.tuples(st.just("gone"), st.sampled_from("abc"), st.none()),
        ),
        max_size=60,
    )
)
def test_whatever_happens_it_holds_what_pods_have_and_nothing_else(
    history: list[tuple[str, str | int, tuple[int, ...] | None]],
) -> None:
    index: PrefixIndex[str] = PrefixIndex()
    index.capacity_tokens = 800
    under_way: list[tuple[str, tuple[int, ...]]] = []
    for what, which, marks in history:
        if marks is not None:
            index.sent(str(which), prefix(*marks))
            under_way.append((str(which), marks))
        elif what == "gone":
            index.forget(str(which))
            under_way = [each for each in under_way if each[0] != which]
        elif under_way:
            pod, ends = under_way.pop(int(which) % len(under_way))
            index.ended(pod, prefix(*ends), computed=what == "well")
        for pod, begun in under_way:
            assert index.held(prefix(*begun))[pod] == len(begun) * TOKENS
        assert index.marks == sum(holders.bit_count() for holders in index._holders.values())
    for pod, begun in under_way:
        index.ended(pod, prefix(*begun), computed=False)

    assert index.marks <= 3 * 8
    for pod in "abc":
        index.forget(pod)
    assert index.marks == 0
    assert not index._holders


def test_it_is_bounded_whatever_pods_hold() -> None:
    index: PrefixIndex[int] = PrefixIndex(most_marks=100)
    index.capacity_tokens = 1e12
    for prompt in range(200):
        computed_at = prompt % 4
        one = prefix(*range(10 * prompt, 10 * prompt + 10))
        index.sent(computed_at, one)
        index.ended(computed_at, one, computed=True)

        assert index.marks <= 100 + 10


def test_it_stays_bounded_as_pods_come() -> None:
    index: PrefixIndex[int] = PrefixIndex(most_marks=120)
    index.capacity_tokens = 1e12
    for pod in range(6):
        for prompt in range(40):
            marks = range(1000 * pod + 10 * prompt, 1000 * pod + 10 * prompt + 10)
            index.sent(pod, prefix(*marks))
            index.ended(pod, prefix(*marks), computed=True)

        assert index.marks <= 120

    # Of each what it used last, and of that the beginning.
    assert index.held(prefix(*range(390, 400))) == {0: 10 * TOKENS}
    for pod in range(6):
        index.forget(pod)
    assert not index._holders


def test_to_count_the_marks_takes_no_memory() -> None:
    index: PrefixIndex[int] = PrefixIndex()
    many = prefix(*range(50_000))
    for pod in range(2):
        index.sent(pod, many)
        index.sent(pod, prefix(*range(50_000, 60_000)))
        index.ended(pod, many, computed=True)
    tracemalloc.start()

    marks = index.marks

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # For each pod as many as it holds tokens, and those still under way there.
    assert marks == 2 * (5_000 + 10_000)
    assert most < 64 * 2**10


def test_a_full_index_takes_little_memory() -> None:
    tracemalloc.start()
    index: PrefixIndex[int] = PrefixIndex()
    index.capacity_tokens = 1e12
    for prompt in range(MOST_MARKS // 512 + 64):
        base = 2**60 + 512 * prompt
        one = Prefix(array("Q", range(base, base + 512)), 256.0)
        index.sent(prompt % 8, one)
        index.ended(prompt % 8, one, computed=True)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert MOST_MARKS - 8 * 512 <= index.marks <= MOST_MARKS
    assert taken < 64 * 2**20
