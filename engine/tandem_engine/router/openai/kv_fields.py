"""Fields of a body in which the router asks engines for KV blocks, and in which engines answer."""

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
"""Where our engines tell when a lease ends, in seconds of their own clock."""
LEASE_S_FIELD = "tandem_lease_s"
"""How long it is, as they were started: what the settings say may be newer than they are."""
NAME_FIELD = "tandem_lease"
"""The router's name for a lease to be; engines that can let one go by its name repeat it."""
LET_GO_FIELD = "tandem_let_go"
"""What nobody will come for: at a prefill pod the router's name, at a decode pod the engine's."""
