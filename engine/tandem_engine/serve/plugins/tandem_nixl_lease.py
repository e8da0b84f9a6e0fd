"""vLLM's NIXL connector, except that a decode engine rejects blocks pulled after their lease.

In vLLM 0.32.0 only the prefill engine notices such a pull, and only logs it. The decode engine
continues with the present content of those blocks, and keeps it in its prefix cache for others.
Here the prefill engine sends the end of the lease, in vLLM's field for the other direction. A pull
that ends later counts as failed: the prompt is computed again.

Blocks that no decode engine will pull can be returned. vLLM passes the KV parameters of a refused
request to its connector. `LET_GO` in them names the requests that are no longer wanted. A prefill
engine knows a request by the lease name that the router gave with `LEASE`, so this works before its
answer, too. A decode engine informs the prefill engine only if the request never came. A request
that came informs it by its own end, and only after its last block is read.

Another version of vLLM gets its own connector, unchanged.
"""

import logging
import time
from contextlib import suppress
from typing import Any

import msgspec  # type: ignore[import-not-found]
import vllm
import zmq  # type: ignore[import-not-found]
from tandem_lease_names import Names  # type: ignore[import-not-found]
from tandem_peer_clock import PeerClock  # type: ignore[import-not-found]
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

TESTED = "0.32."
LEASE = "tandem_lease"
LEASE_S = "tandem_lease_s"
LET_GO = "tandem_let_go"
_DEFAULT_LEASE_S = 30
_MARGIN_SHARE = 1 / 6
_PEER_ANSWERS_MS = 5000
# A request may wait at a decode engine for longer than a lease: heartbeats lengthen that.
_KEPT_LEASES = 10

log = logging.getLogger("vllm.tandem_nixl_lease")

# vLLM recognises the needs of such a connector by the name NixlConnector.
if vllm.__version__.startswith(TESTED):
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import (
        NixlBaseConnector,
        NixlPullConnector,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.metadata import GET_META_MSG
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import (
        NixlPullConnectorScheduler,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import (
        NixlPullConnectorWorker,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.utils import zmq_ctx
    from vllm.utils.network_utils import make_zmq_path

    class NixlConnector(NixlPullConnector):  # type: ignore[misc]
        """The pull connector with leases that both sides know."""

        def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
            # The pull connector's own method would make a second NIXL agent.
            NixlBaseConnector.__init__(self, vllm_config, role, kv_cache_config)
            self.connector_scheduler = self.connector_worker = None
            if role == KVConnectorRole.SCHEDULER:
                self.connector_scheduler = LeaseScheduler(
                    vllm_config, self.engine_id, kv_cache_config
                )
            else:
                self.connector_worker = LeaseWorker(vllm_config, self.engine_id, kv_cache_config)

    class LeaseScheduler(NixlPullConnectorScheduler):  # type: ignore[misc]
        """The scheduler part: it reports the ends of leases, and blocks that nobody will pull."""

        def __init__(self, vllm_config: Any, engine_id: str, kv_cache_config: Any) -> None:
            super().__init__(vllm_config, engine_id, kv_cache_config)
            self._names = Names(kept_s=_KEPT_LEASES * self._kv_lease_duration)

        def on_new_request(self, request: Any) -> None:
            """Let a request pull its blocks, unless they were released before it came."""
            params = request.kv_transfer_params or {}
            remote_id = params.get("remote_request_id")
            if params.get("do_remote_prefill") and remote_id and LET_GO not in params:
                params["do_remote_prefill"] = self._names.came(
                    remote_id, request.request_id, now=time.perf_counter()
                )
            super().on_new_request(request)

        def request_finished(
            self, request: Any, block_ids: Any
        ) -> tuple[bool, dict[str, Any] | None]:
            """Return vLLM's result, and the end of the lease if there is one."""
            params = request.kv_transfer_params or {}
            if LET_GO in params:
                self._let_go(request, params)
                return False, None
            held, parameters = super().request_finished(request, block_ids)
            if held and parameters is not None and parameters["do_remote_prefill"]:
                request_id, name = request.request_id, params.get(LEASE)
                if name and not self._names.came(name, request_id, now=time.perf_counter()):
                    del self._reqs_need_send[request_id]
                    self._reqs_not_processed.add(request_id)
                    return False, None
                parameters["remote_blocks_expiry_time"] = self._reqs_need_send[request_id]
                parameters[LEASE_S] = self._kv_lease_duration
                parameters[LEASE] = name
            return held, parameters

        def _let_go(self, request: Any, params: dict[str, Any]) -> None:
            self._stop_heartbeat(request.request_id)
            params["do_remote_prefill"] = False
            came = self._names.let_go(params[LET_GO], now=time.perf_counter())
            ours = params.get("remote_engine_id") in (None, self.engine_id)
            if ours == (came is None):
                return
            if ours:
                params |= {
                    "remote_engine_id": self.engine_id,
                    "remote_request_id": came,
                    "remote_block_ids": [],
                    "remote_host": "",
                    "remote_port": 0,
                }
            # Without blocks: their owner receives the release.
            self._reqs_need_recv[request.request_id] = (request, [], (), False)

    class LeaseWorker(NixlPullConnectorWorker):  # type: ignore[misc]
        """The worker part: it rejects late pulls, and takes back blocks that nobody will pull."""

        def __init__(self, vllm_config: Any, engine_id: str, kv_cache_config: Any) -> None:
            super().__init__(vllm_config, engine_id, kv_cache_config)
            lease_s = self.kv_transfer_config.get_from_extra_config(
                "kv_lease_duration", _DEFAULT_LEASE_S
            )
            self._margin_s = lease_s * _MARGIN_SHARE
            self._given_back: set[str] = set()
            self._clocks: dict[str, PeerClock] = {}

        def _nixl_handshake(
            self, host: str, port: int, tp_size: int, engine_id: str, *others: Any
        ) -> Any:
            found = super()._nixl_handshake(host, port, tp_size, engine_id, *others)
            self._clocks[engine_id] = clock = PeerClock()
            self._ask_clock(clock, host, port)
            return found

        def _ask_clock(self, clock: PeerClock, host: str, port: int) -> None:
            """Ask a prefill engine for its time, in a thread that may wait.

            Without an answer its leases are not known, and no block of it is accepted.
            """
            path = make_zmq_path("tcp", host, port)
            # The first answer includes the time of the connection.
            with suppress(zmq.ZMQError), zmq_ctx(zmq.REQ, path) as peer:
                peer.setsockopt(zmq.RCVTIMEO, _PEER_ANSWERS_MS)
                for _ in range(3):
                    sent_s = time.perf_counter()
                    peer.send(msgspec.msgpack.encode((GET_META_MSG, 0, 0)))
                    _, stamp = peer.recv_multipart()
                    clock.stamped(msgspec.msgpack.decode(stamp), sent_s=sent_s)

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
            """Return the transfers that vLLM found done, and those that were given back."""
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
            """Return whether the blocks may hold other content by now."""
            ends_s = meta.remote.blocks_expiry_time
            if ends_s is None or not any(meta.local_block_ids):
                return False
            now, remote = time.perf_counter(), meta.remote
            clock = self._clocks[remote.engine_id]
            if clock.ask(now):
                self._handshake_initiation_executor.submit(
                    self._ask_clock, clock, remote.host, remote.port
                )
            if now + self._margin_s < ends_s - clock.ahead_s(now):
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
