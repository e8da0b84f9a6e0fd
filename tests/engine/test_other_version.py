"""An engine image with another version of vLLM keeps that version's own NIXL connector."""

import json
import subprocess

import pytest

from tandem_engine.serve.engine_command import PLUGINS

CONNECTOR = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import vllm
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
vllm.__version__ = sys.argv[2] or vllm.__version__
own = KVConnectorFactory.get_connector_class_by_name("NixlConnector")
sys.path.insert(0, sys.argv[1])
import tandem_nixl_lease
json.dump({"own": tandem_nixl_lease.NixlConnector is own, "version": vllm.__version__}, answers)
"""


@pytest.mark.parametrize(("version", "own"), [("", False), ("0.33.0", True)])
def test_the_lease_is_built_into_the_tested_version_alone(
    python: str, version: str, own: bool
) -> None:
    told = subprocess.run(
        [python, "-c", CONNECTOR, str(PLUGINS), version],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )

    assert json.loads(told.stdout)["own"] is own
    assert ("pulls late are not refused" in told.stderr) is own
