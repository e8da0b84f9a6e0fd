"""The series that a pass leaves for a scrape of the operator."""

WHERE = {"namespace": "serving", "pool": "tiny"}


def value(store, name, **labels):
    return store.registry.get_sample_value(name, WHERE | labels)


def statuses(store, kind):
    return {
        status: value(store, "tandem_pool_condition", condition=kind, status=status)
        for status in ("true", "false", "unknown")
    }


async def test_every_condition_of_the_status_is_shown_as_it_stands(store):
    await store.passes()

    for each in store.pool["status"]["conditions"]:
        assert statuses(store, each["type"])[each["status"].lower()] == 1.0, each


async def test_conditions_stay_shown_where_a_pass_has_no_news_for_the_status(store):
    await store.passes(3)

    assert statuses(store, "Accepted") == {"true": 1.0, "false": 0.0, "unknown": 0.0}
    assert value(store, "tandem_pool_last_pass_timestamp_seconds") == store.now_s


async def test_a_refused_spec_is_shown_without_bounds_that_are_not_in_force(store):
    await store.passes()
    before = value(store, "tandem_pool_max_replicas", role="decode")
    store.edit({"slo": {"ttft": {"target": "soon"}}})

    await store.passes()

    assert before == 8.0
    assert statuses(store, "Accepted")["false"] == 1.0
    assert value(store, "tandem_pool_max_replicas", role="decode") is None


async def test_a_deleted_pool_leaves_no_series(store):
    await store.passes()
    del store.kinds["inferencepools"]["tiny"]

    await store.passes()

    assert not [
        sample
        for family in store.registry.collect()
        for sample in family.samples
        if sample.labels.get("pool") == "tiny"
    ]
