"""The pool's key: between router and engines, and nowhere else."""

import logging

import pytest

from tandem_engine.router.app import RouterOptions
from tests.unit.router.pool import Pool

KEY = "open-sesame"
keyed = pytest.mark.parametrize("bare_pool", [{"engine_key": KEY}], indirect=True)


@keyed
async def test_engines_get_the_pools_key_instead_of_what_the_client_was_let_in_by(
    pool: Pool,
) -> None:
    given = {"Authorization": "Bearer of-the-client"}

    await pool.post({"model": "tiny", "prompt": "hello"}, headers=given)

    for name in ("p0", "d0"):
        headers = pool.engines[name].seen[0].headers
        assert headers.getall("Authorization") == [f"Bearer {KEY}"]


async def test_without_a_key_engines_are_given_none(pool: Pool) -> None:
    given = {"Authorization": "Bearer of-the-client"}

    await pool.post({"model": "tiny", "prompt": "hello"}, headers=given)

    assert "Authorization" not in pool.engines["d0"].seen[0].headers


@keyed
async def test_an_engine_with_another_key_is_no_fault_of_the_clients(pool: Pool) -> None:
    await pool.add("d1")
    pool.engines["d0"].script.statuses = [401] * 9
    pool.engines["d1"].script.statuses = [401]

    answers = [await pool.complete() for _ in range(4)]

    assert 401 not in [status for status, _ in answers]
    assert [status for status, _ in answers].count(200) >= 2


@keyed
async def test_the_key_is_in_no_log_and_in_no_answer(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pool.engines["d0"].script.statuses = [401, 500, 400]

    answers = [await pool.complete() for _ in range(3)]

    assert KEY not in str([vars(record) for record in caplog.records])
    assert KEY not in str(answers)
    assert KEY not in repr(RouterOptions(engine_key=KEY))
