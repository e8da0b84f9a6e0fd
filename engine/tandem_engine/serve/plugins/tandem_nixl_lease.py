"""vLLM's NIXL connector, except that a decode engine believes no block pulled after its lease.

In vLLM 0.32.0 only the prefill engine notices such a pull, and only logs it. The decode engine goes
on with whatever is in those blocks by then, and keeps it in its prefix cache for others. Here the
prefill engine tells until when it keeps the blocks, in the field that vLLM has for the other
direction, and a pull that ends later counts as one that failed: the prompt is computed again.

Blocks that no decode engine will come for can be given back: an engine takes KV parameters of its
own for that, as vLLM hands them to its connector when it refuses a request.

Another version of vLLM gets its own connector, unchanged.
"""

import logging
import time
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

TESTED = "0.32."
_DEFAULT_LEASE_S = 30
_MARGIN_SHARE = 1 / 6

log = logging.getLogger("vllm.tandem_nixl_lease")

# vLLM knows by the name NixlConnector what such a connector needs of it.
if vllm.__version__.startswith(TESTED):
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import (
        NixlBaseConnector,
        NixlPullConnector,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import (
        NixlPullConnectorScheduler,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import (
        NixlPullConnectorWorker,
    )

    class NixlConnector(NixlPullConnector):  # type: ignore[misc]
        """The pull connector with leases that both sides know."""

        def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
            # The pull connector's own would make a second NIXL agent.
            NixlBaseConnector.__init__(self, vllm_config, role, kv_cache_config)
            self.connector_scheduler = self.connector_worker = None
            if role == KVConnectorRole.SCHEDULER:
                self.connector_scheduler = LeaseScheduler(
                    vllm_config, self.engine_id, kv_cache_config
                )
            else:
                self.connector_worker = LeaseWorker(vllm_config, self.engine_id, kv_cache_config)

    class LeaseScheduler(NixlPullConnectorScheduler):  # type: ignore[misc]
        """Tells with the KV parameters when their lease ends, by this engine's clock."""

        def request_finished(
            self, request: Any, block_ids: Any
        ) -> tuple[bool, dict[str, Any] | None]:
            """Return what vLLM says, and the end of the lease where there is one."""
            held, parameters = super().request_finished(request, block_ids)
            if held and parameters is not None and parameters["do_remote_prefill"]:
                ends_s = self._reqs_need_send[request.request_id]
                parameters["remote_blocks_expiry_time"] = ends_s
            return held, parameters

    class LeaseWorker(NixlPullConnectorWorker):  # type: ignore[misc]
        """Refuses what was pulled late, and takes back what nobody will pull."""

        def __init__(self, vllm_config: Any, engine_id: str, kv_cache_config: Any) -> None:
            super().__init__(vllm_config, engine_id, kv_cache_config)
            lease_s = self.kv_transfer_config.get_from_extra_config(
                "kv_lease_duration", _DEFAULT_LEASE_S
            )
            self._margin_s = lease_s * _MARGIN_SHARE
            self._given_back: set[str] = set()

        def _read_blocks_for_req(self, req_id: str, meta: Any) -> None:
            if meta.remote.engine_id == self.engine_id:
                self._given_back.add(meta.remote.request_id)
                return
            if meta.remote.engine_id in self._remote_agents and self._refused(req_id, meta):
                self._handle_failed_transfer(
                    req_id, None, self._recv_failures, record_failed_transfer=False
                )
                return
            super()._read_blocks_for_req(req_id, meta)

        def _pop_done_transfers(self, transfers: Any) -> tuple[set[str], set[str]]:
            done, failed = super()._pop_done_transfers(transfers)
            for req_id in done - failed:
                meta = self._recving_metadata.get(req_id)
                if meta is not None and self._refused(req_id, meta):
                    failed.add(req_id)
            return done, failed

        def get_transfer_results(self) -> Any:
            """Return what vLLM found done, and what was given back."""
            results = super().get_transfer_results()
            while self._given_back:
                request_id = self._given_back.pop()
                if self._reqs_to_send.pop(request_id, None) is None:
                    continue
                self._reqs_to_process.discard(request_id)
                self.consumer_notification_counts_by_req.pop(request_id, None)
                self.expected_consumer_notifications_by_req.pop(request_id, None)
                results.finished_sending.add(request_id)
            return results

        def _refused(self, req_id: str, meta: Any) -> bool:
            """Return whether the blocks may hold something else by now."""
            ends_s = meta.remote.blocks_expiry_time
            if ends_s is None or not any(meta.local_block_ids):
                return False
            ahead_s = self._engine_clock_offset.get(meta.remote.engine_id)
            if ahead_s is not None and time.perf_counter() + self._margin_s < ends_s - ahead_s:
                return False
            self.xfer_stats.record_kv_expired_req()
            log.warning("KV blocks of %s came after their lease: computed again", req_id)
            return True

else:
    globals()["NixlConnector"] = KVConnectorFactory.get_connector_class_by_name("NixlConnector")
    log.warning(
        "vLLM %s is not %sx: KV blocks that a decode engine pulls late are not refused",
        vllm.__version__,
        TESTED,
    )
