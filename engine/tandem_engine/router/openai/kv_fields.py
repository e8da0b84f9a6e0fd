"""Fields of a body by which the router asks engines for KV blocks, and engines answer."""

KV_PARAMS = "kv_transfer_params"

REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
ENDS_FIELD = "remote_blocks_expiry_time"
"""The end of a lease, in seconds of the engine's clock, as Tandem's engines report it."""
LEASE_S_FIELD = "tandem_lease_s"
"""The length of the lease in this engine; the settings may be newer than the engine."""
NAME_FIELD = "tandem_lease"
"""The router's name for a lease; engines that can free a lease by name repeat it."""
LET_GO_FIELD = "tandem_let_go"
"""The lease to free: at a prefill pod by the router's name, at a decode pod by the engine's."""
