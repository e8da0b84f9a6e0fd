import time

import pytest

from tests.unit.cli.fake_cluster import FakeCluster, FakeRouter, do, running
from tests.unit.cli.files import pool

__all__ = ["pool"]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    with running(FakeCluster()) as found:
        path = tmp_path / "kubeconfig"
        path.write_text(found.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", str(path))
        monkeypatch.chdir(tmp_path)
        yield found


@pytest.fixture
def add_router(cluster):
    def add(name, *pages):
        router = FakeRouter(*pages)
        cluster.routers[name] = do(cluster, router.start())
        return router

    return add


@pytest.fixture
def now_s():
    return time.time()
