"""Which options of vLLM a pool may set. Checked against the parser of vLLM 0.32.0 by a test.

A list of what is allowed, not of what is refused: an option that a later vLLM brings is refused
until somebody has read what it does. Whoever may create pools may be nobody who may create pods.
"""

from collections.abc import Iterator

from tandem_operator.api.spelling import nearest
from tandem_operator.api.v1alpha1.extra_args import TANDEMS_OPTIONS
from tandem_operator.workloads.objection import Objection

SWITCH = "pools.allowAnyExtraArgs"
"""The chart's value that opens this."""

_ALLOWED = """
    --aggregate-engine-logging --all2all-backend --allow-deprecated-quantization
    --allowed-media-domains --anthropic-disabled-thinking-effort --async-scheduling
    --attention-backend --attention-config -ac --aux-output-config --chat-template-content-format
    --cohere-format --cohere-is-reasoning-model --config-format --convert
    --cp-kv-cache-interleave-size --cpu-distributed-timeout-seconds --cpu-offload-gb
    --cpu-offload-params --cudagraph-capture-sizes --cudagraph-metrics --custom-histogram-buckets
    --dbo-decode-token-threshold --dbo-prefill-token-threshold --dcp-comm-backend
    --dcp-kv-cache-interleave-size --dcp-q-replicate --decode-context-parallel-size -dcp
    --default-chat-template-kwargs --diffusion-config -dc --disable-access-log-for-endpoints
    --disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce
    --disable-fastapi-docs --disable-hybrid-kv-cache-manager --disable-sliding-window
    --disable-uvicorn-access-log --distributed-timeout-seconds --download-dir
    --enable-auto-tool-choice --enable-batch-sharded-sampling --enable-chunked-prefill
    --enable-cumem-allocator --enable-dbo --enable-ep-weight-filter --enable-eplb
    --enable-expert-parallel --enable-flash-late-interaction --enable-flashinfer-autotune
    --enable-force-include-usage --enable-hc-sp --enable-layerwise-nvtx-tracing
    --enable-logging-iteration-details --enable-lora --enable-mamba-cache-stochastic-rounding
    --enable-mamba-shared-prefix-checkpoint --enable-mfu-metrics --enable-mixed-moe-lora-format
    --enable-moe-shared-loras --enable-nccl-comm-suspend --enable-per-request-metrics
    --enable-request-id-headers --enable-return-routed-experts --enable-server-load-tracking
    --enable-shm-tensor-arena --enable-sleep-mode --enable-tower-connector-lora --enforce-eager
    --engram-config -ep --eplb-config --exclude-tools-when-tool-choice-none
    --expert-placement-strategy --fail-on-environ-validation --fingerprint-mode --fingerprint-value
    --fully-sharded-loras --gdn-prefill-backend --generation-config --gpu-memory-utilization
    --device-memory-utilization --h11-max-header-count --h11-max-incomplete-event-size
    --hf-overrides --ignore-patterns --interleave-mm-strings --ir-op-priority --jit-monitor-mode
    --jit-monitor-verbose --kda-decode-backend --kda-prefill-backend --kernel-config
    --kv-cache-dtype --kv-cache-dtype-skip-layers --kv-cache-metrics --kv-cache-metrics-sample
    --kv-offloading-size --kv-sharing-fast-prefill --language-model-only --limit-mm-per-prompt
    --linear-backend --load-format --logprobs-mode --long-prefill-token-threshold
    --long-prefill-token-threshold-adaptive --lora-dtype --lora-target-modules --mamba-backend
    --mamba-block-size --mamba-cache-dtype --mamba-cache-mode --mamba-cache-philox-rounds
    --mamba-ssm-cache-dtype --mamba-ssu-algorithm --max-cpu-loras --max-cudagraph-capture-size
    --max-log-len --max-logprobs --max-lora-cls-labels --max-lora-rank --max-loras
    --max-num-active-seqs --max-num-batched-tokens --max-num-queued-reqs --max-num-queued-tokens
    --max-num-scheduled-tokens --max-parallel-loading-workers --media-io-kwargs
    --mm-device-do-normalize --mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-only
    --mm-encoder-tp-mode --mm-hasher-algorithm --mm-ipc-gpu-memory-gb --mm-processor-cache-gb
    --mm-processor-cache-type --mm-processor-device --mm-processor-kwargs
    --mm-shm-cache-max-object-size-mb --mm-tensor-ipc --model-impl --moe-backend
    --num-gpu-blocks-override --numa-bind --numa-bind-cpus --numa-bind-nodes --offload-backend
    --offload-group-size --offload-num-in-group --offload-params --offload-prefetch-step
    --optimization-level --override-generation-config --per-request-spec-decode-metrics
    --performance-mode --pooler-config --prefill-schedule-interval --prefix-cache-retention-interval
    --prefix-caching-hash-algo --prefix-match-unit --pt-load-map-location --quantization-config
    --reasoning-config --reasoning-parser --renderer-num-workers --replayssm-buffer-len
    --response-role --return-sampling-mask --return-tokens-as-token-ids --runner
    --safetensors-load-strategy --safetensors-prefetch-block-size --safetensors-prefetch-num-threads
    --scheduler-reserve-full-isl --scheduling-policy --seed --show-hidden-metrics-for-version
    --skip-mm-profiling --sleep-mode-offload-cudagraph --sleep-preserve-parameter-names
    --sparse-indexer-topk-backend --spec-method --spec-model --spec-tokens --specialize-active-lora
    --speculative-config -sc --stream-interval --structured-outputs-config.backend
    --structured-outputs-config.disable_additional_properties
    --structured-outputs-config.disable_any_whitespace
    --structured-outputs-config.enable_in_reasoning --structured-outputs-config.reasoning_parser
    --swa-bounded-replay --tokenizer --tokenizer-mode --tokenizer-revision --tool-call-parser
    --tool-strict-level --ubatch-size --use-fp64-gumbel --use-replayssm --use-tqdm-on-load
    --video-pruning-method --video-pruning-rate --watermark --watermark-config
"""
ALLOWED = frozenset(_ALLOWED.split())
"""Options that change how an engine computes, and nothing else. With a dot: that part alone."""

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
        --allowed-local-media-path --chat-template --default-mm-loras --hf-config-path
        --lora-modules --mm-encoder-fp8-scale-path --mm-encoder-fp8-scale-save-margin
        --mm-encoder-fp8-scale-save-path --profiler-config --ray-workers-use-nsight
        --enable-trace-replay
    """,
    "it opens unprotected ports or endpoints": """
        --allow-credentials --allowed-headers --allowed-methods --allowed-origins
        --enable-elastic-ep --elastic-ep-max-dp-size --enable-fault-tolerance
        --enable-offline-docs --enable-scale-out --enable-ssl-refresh
        --enable-tokenizer-info-endpoint --fault-tolerance-config --grpc --grpc-port --ssl-ca-certs
        --ssl-cert-reqs --ssl-ciphers --tokens-only --weight-transfer-config
    """,
    "it sends data elsewhere": """
        --collect-detailed-traces --ec-transfer-config --kv-events-config --kv-offloading-backend
        --otlp-traces-endpoint --tool-server
    """,
    "it passes unchecked client data to the engine": """
        --enable-mm-embeds --enable-prompt-embeds --trust-request-mm-kwargs
    """,
    "it writes prompts, answers or tokens to the log": """
        --enable-log-deltas --enable-log-outputs --log-error-stack --log-level --uvicorn-log-level
    """,
    "it puts a secret into the pod spec": "--hf-token",
    "each pod runs one engine on gpusPerReplica GPUs": """
        --api-server-count -asc --data-parallel-address -dpa --data-parallel-backend -dpb
        --data-parallel-external-lb -dpe --data-parallel-hybrid-lb -dph
        --data-parallel-multi-port-external-lb -dpm --data-parallel-rank -dpn
        --data-parallel-rpc-port -dpp --data-parallel-size -dp --data-parallel-size-local -dpl
        --data-parallel-start-rank -dpr --data-parallel-supervisor-port --device-ids
        --disable-nccl-for-dp-synchronization --dp-supervisor-probe-failure-threshold
        --dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --dp-sync-interval
        --master-addr --master-port --nnodes -n --node-rank -r --pipeline-parallel-size -pp
        --prefill-context-parallel-size -pcp
    """,
    "the router relies on Tandem's own value": """
        --enable-prompt-tokens-details --skip-tokenizer-init --sse-keep-alive-interval
    """,
}
REFUSED = {option: why for why, options in _REFUSED.items() for option in options.split()}
"""Options that were read and not allowed, each with the reason."""
_UNKNOWN = "Tandem does not know this vLLM option"


def refused_options(arguments: tuple[str, ...]) -> Iterator[Objection]:
    """A sentence for each argument that a pool may not set, with its place in the list."""
    for index, argument in enumerate(arguments):
        option = argument.partition("=")[0]
        why = _why_refused(option)
        if why is None:
            continue
        near = nearest(option, ALLOWED) if why == _UNKNOWN else None
        instead = "leave it out" if near is None else f"write {near}"
        field = f"engine.extraArgs[{index}]"
        sentence = f"{option} is refused, since {why}; {instead}"
        yield Objection(field, f"{field}: {sentence}, or install Tandem with {SWITCH}: true")


def _why_refused(given: str) -> str | None:
    positive = given.removeprefix("--no-")
    given = given if positive == given else f"--{positive}"
    whole, _, part = given.partition(".")
    whole = whole.replace("_", "-")
    if whole in ALLOWED or f"{whole}.{part}" in ALLOWED or whole in TANDEMS_OPTIONS:
        return None
    return REFUSED.get(whole, _UNKNOWN)
