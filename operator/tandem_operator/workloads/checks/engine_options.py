"""The options of vLLM that a pool may set. A test checks them against the parser of vLLM 0.32.0.

An option that is not on the list of `builders/vllm_options.py` is refused, because authors of pools
may lack the right to create pods. Some options break every pool, so they are always refused.
"""

from collections.abc import Iterator

from tandem_operator.api import PoolSpec
from tandem_operator.api.spelling import nearest
from tandem_operator.api.v1alpha1.extra_args import TANDEMS_OPTIONS
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.vllm_options import (
    ALLOWED,
    VllmOption,
    read_option,
    shared_options,
)
from tandem_operator.workloads.objection import Objection

SWITCH = "pools.allowAnyExtraArgs"
"""The chart's value that allows all options."""

_REFUSED = {
    "it can load code": """
        --additional-config --code-revision --compilation-config -cc --distributed-executor-backend
        --ec-manager-config --io-processor-plugin --log-config-file --logging-config
        --logits-processors --middleware --model-class-overrides --model-loader-extra-config
        --reasoning-parser-plugin --scheduler-cls --structured-outputs-config
        --tool-parser-plugin --trust-remote-code --trust-request-chat-template --worker-cls
        --worker-extension-cls
    """,
    "it reads or writes files of the engine pod": """
        --allowed-local-media-path --chat-template --hf-config-path --mm-encoder-fp8-scale-path
        --mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path --profiler-config
        --ray-workers-use-nsight --enable-trace-replay
    """,
    "it opens unprotected ports or endpoints": """
        --allow-credentials --allowed-headers --allowed-methods --allowed-origins
        --enable-fault-tolerance --enable-offline-docs --enable-scale-out --enable-ssl-refresh
        --enable-tokenizer-info-endpoint --fault-tolerance-config --ssl-ca-certs --ssl-cert-reqs
        --ssl-ciphers --weight-transfer-config
    """,
    "it sends data elsewhere": """
        --collect-detailed-traces --ec-transfer-config --kv-events-config --otlp-traces-endpoint
        --tool-server
    """,
    "it passes unchecked client data to the engine": """
        --enable-mm-embeds --enable-prompt-embeds --trust-request-mm-kwargs
    """,
    "it writes prompts, answers or tokens to the log": """
        --enable-log-deltas --enable-log-outputs --log-error-stack --log-level --uvicorn-log-level
    """,
    "it puts a secret into the pod spec": "--hf-token",
}
REFUSED = {option: why for why, options in _REFUSED.items() for option in options.split()}
"""Options that were examined and not allowed, each with the reason."""

_GPUS = "write gpusPerReplica: 2 for more GPUs, or maxReplicas: 4 for more engines"
_MERGED = "serve the merged weights from a pool of their own"
_BREAKING = {
    ("each pod runs one engine on gpusPerReplica GPUs", _GPUS): """
        --api-server-count -asc --data-parallel-address -dpa --data-parallel-backend -dpb
        --data-parallel-external-lb -dpe --data-parallel-hybrid-lb -dph
        --data-parallel-multi-port-external-lb -dpm --data-parallel-rank -dpn
        --data-parallel-rpc-port -dpp --data-parallel-size -dp --data-parallel-size-local -dpl
        --data-parallel-start-rank -dpr --data-parallel-supervisor-port --device-ids
        --disable-nccl-for-dp-synchronization --dp-supervisor-probe-failure-threshold
        --dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --dp-sync-interval
        --elastic-ep-max-dp-size --enable-elastic-ep --master-addr --master-port --nnodes -n
        --node-rank -r --pipeline-parallel-size -pp --prefill-context-parallel-size -pcp
    """,
    ("it replaces the transfer of KV blocks from prefill to decode", "leave it out"): """
        --kv-offloading-backend --kv-offloading-size
    """,
    ("the router serves no LoRA adapters", _MERGED): """
        --default-mm-loras --enable-lora --lora-modules
    """,
    ("the router needs an engine that answers in text by HTTP", "leave it out"): """
        --convert --grpc --grpc-port --mm-encoder-only --runner --skip-tokenizer-init --tokens-only
    """,
    ("the router relies on Tandem's own value", "leave it out"): """
        --enable-prompt-tokens-details --sse-keep-alive-interval
    """,
}
BREAKING = {option: why for why, options in _BREAKING.items() for option in options.split()}
"""Options with which no pool works, in any installation: the reason, and the remedy."""

_TANDEMS = dict.fromkeys(TANDEMS_OPTIONS, ("Tandem sets it", "leave it out"))
_NEVER = BREAKING | _TANDEMS
_READ = ALLOWED | REFUSED.keys() | _NEVER.keys()
_UNKNOWN = "Tandem does not know this vLLM option"


def option_objections(spec: PoolSpec, *, any_option: bool) -> Iterator[Objection]:
    """Return the faults in the arguments of a pool's engines, each with its field.

    `any_option`: the installation allows any option that the pool can work with.
    """
    lists = {"engine": spec.engine.extra_args} | {
        f"{role}.engine": fleet.engine.extra_args
        for role, fleet in spec.fleets.items()
        if fleet.engine is not None and fleet.engine.extra_args is not None
    }
    refused = [
        objection
        for owner, arguments in lists.items()
        for objection in refused_options(arguments, f"{owner}.extraArgs", any_option=any_option)
    ]
    yield from refused or _differences(spec)


def _differences(spec: PoolSpec) -> Iterator[Objection]:
    """Yield arguments that shape KV blocks or text and that only one role has."""
    has = {role: shared_options(spec.engine_of(role).extra_args) for role in Role}
    for role, other in ((Role.PREFILL, Role.DECODE), (Role.DECODE, Role.PREFILL)):
        alone = next((each for each in has[role] if each not in has[other]), None)
        if alone is not None:
            field = f"{other}.engine.extraArgs"
            yield Objection(
                field,
                f"{field} must hold {alone} like the arguments of {role}, since it may shape KV"
                " blocks or text; write it in the extraArgs of both roles, or of neither",
            )
            return


def refused_options(
    arguments: tuple[str, ...], field: str, *, any_option: bool
) -> Iterator[Objection]:
    """Yield a sentence for each argument that a pool may not set, with its position in the list."""
    for index, argument in enumerate(arguments):
        option = read_option(argument)
        wrong = _breaking(option) or (None if any_option else _not_allowed(option))
        if wrong is not None:
            why, instead = wrong
            place, given = f"{field}[{index}]", argument.partition("=")[0]
            yield Objection(place, f"{place}: {given} is refused, since {why}; {instead}")


def _breaking(option: VllmOption) -> tuple[str, str] | None:
    """Return why no pool works with an option, in every spelling that vLLM's parser accepts."""
    names = (option.name, option.positive)
    for name in names:
        if name in _READ:
            return _NEVER.get(name)
    # argparse accepts the beginning of an option for the whole, and `-n2` for `-n 2`.
    meant = next(
        (each for each in sorted(_NEVER) if any(_may_mean(name, each) for name in names)), None
    )
    if meant is None:
        return None
    why, instead = _NEVER[meant]
    return f"vLLM can read it as {meant}, and {why}", instead


def _may_mean(name: str, option: str) -> bool:
    glued = not option.startswith("--") and not name.startswith("--") and name.startswith(option)
    return glued or option.startswith(name)


def _not_allowed(option: VllmOption) -> tuple[str, str] | None:
    name = option.positive
    if name in ALLOWED or name + option.part in ALLOWED:
        return None
    why = REFUSED.get(name, _UNKNOWN)
    near = nearest(option.name, ALLOWED) if why == _UNKNOWN else None
    instead = "leave it out" if near is None else f"write {near}"
    return why, f"{instead}, or install Tandem with {SWITCH}: true"
