"""The Secret with a pool's key: made once, read never."""

from tests.unit.loop.store import storing

NAME = "tiny-engine-key-"


def keys(store):
    return {name: body["stringData"]["key"] for name, body in store.kinds["secrets"].items()}


async def test_a_pool_has_a_key_before_its_pods_and_keeps_it():
    async with storing() as store:
        await store.passes()
        first = keys(store)
        store.restart()
        await store.passes(3)

        assert keys(store) == first
        ((name, key),) = first.items()
        assert name.startswith(NAME)
        assert len(key) >= 40
        (secret,) = store.kinds["secrets"].values()
        assert secret["immutable"] is True
        assert secret["metadata"]["ownerReferences"][0]["uid"] == "8f0c"
        order = [plural for plural, _ in store.tried]
        assert order.index("secrets") < order.index("deployments")


async def test_the_key_stands_nowhere_but_in_the_secret():
    async with storing() as store:
        await store.passes(2)

        (key,) = keys(store).values()
        others = {kind: found for kind, found in store.kinds.items() if kind != "secrets"}
        assert key not in str(others)
        assert key not in str(store.events)


async def test_a_pool_made_again_has_another_key():
    async with storing() as store:
        await store.passes()
        for kind in set(store.kinds) - {"inferencepools", "secrets"}:
            store.kinds[kind].clear()
        store.pool["metadata"]["uid"] = "9a1d"
        await store.passes()

        assert len(set(keys(store).values())) == 2


async def test_a_secret_that_is_refused_leaves_the_pool_as_it_is_and_says_why():
    async with storing() as store:
        await store.passes()
        (name,) = keys(store)
        store.restart()
        store.refusals["secrets", name] = (403, "secrets is forbidden: exceeded quota")
        store.edit({"engine": {"dtype": "bfloat16"}})
        before = len(store.tried)
        await store.passes()

        accepted = store.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "ChildRefused")
        assert f"Secret {name}: secrets is forbidden: exceeded quota" in accepted["message"]
        written = {plural for plural, _ in store.tried[before:]}
        assert "deployments" not in written


async def test_a_secret_that_a_pod_misses_is_made_at_once():
    async with storing() as store:
        await store.passes()
        (name,) = keys(store)
        store.kinds["secrets"].clear()
        store.start(waiting_for(name), component="decode")
        await store.passes()

        assert list(keys(store)) == [name]


async def test_a_key_made_anew_while_pods_run_with_the_old_one_is_told_once_with_what_to_do():
    async with storing() as store:
        await store.passes()
        (name,) = keys(store)
        assert ("Warning", "EngineKeyReplaced") not in store.told
        template = store.kinds["deployments"]["tiny-decode"]["spec"]["template"]
        pod = waiting_for(name)
        pod["metadata"]["annotations"] = template["metadata"]["annotations"]
        pod["status"] = {"phase": "Running"}
        store.start(pod, component="decode")
        store.kinds["secrets"].clear()

        await store.passes(130)

        [event] = [each for each in store.events if each["reason"] == "EngineKeyReplaced"]
        assert f"Secret {name} was missing" in event["note"]
        assert "rollout restart deployment tiny-prefill tiny-decode tiny-router" in event["note"]


async def test_a_secret_is_not_made_again_and_again():
    async with storing() as store:
        await store.passes(20)

        assert [plural for plural, _ in store.tried].count("secrets") == 1


def waiting_for(secret):
    waiting = {"reason": "CreateContainerConfigError", "message": f'secret "{secret}" not found'}
    return {
        "metadata": {
            "name": "p",
            "namespace": "serving",
            "labels": {
                "tandem-inference.io/pool": "tiny",
                "tandem-inference.io/role": "decode",
            },
            "creationTimestamp": "2026-09-21T14:13:20Z",
        },
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"name": "engine", "state": {"waiting": waiting}}],
        },
    }
