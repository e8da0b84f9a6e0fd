"""The options of vLLM that only change how an engine computes; a test checks them.

A test compares the list with vLLM's parser. The list contains known options only. An option of a
later vLLM is not allowed until a person has read what it does.
"""

from dataclasses import dataclass

_OF_ONE_ROLE = """
    --aggregate-engine-logging --all2all-backend --async-scheduling
    --cpu-distributed-timeout-seconds --cpu-offload-gb --cpu-offload-params
    --cudagraph-capture-sizes --cudagraph-metrics --custom-histogram-buckets
    --dbo-decode-token-threshold --dbo-prefill-token-threshold --disable-access-log-for-endpoints
    --disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce
    --disable-fastapi-docs --disable-uvicorn-access-log --distributed-timeout-seconds --download-dir
    --enable-batch-sharded-sampling --enable-chunked-prefill --enable-cumem-allocator --enable-dbo
    --enable-ep-weight-filter --enable-eplb --enable-expert-parallel --enable-flashinfer-autotune
    --enable-layerwise-nvtx-tracing --enable-logging-iteration-details --enable-mfu-metrics
    --enable-nccl-comm-suspend --enable-server-load-tracking --enable-shm-tensor-arena
    --enable-sleep-mode --enforce-eager -ep --eplb-config --expert-placement-strategy
    --fail-on-environ-validation --gpu-memory-utilization --device-memory-utilization
    --jit-monitor-mode --jit-monitor-verbose --kernel-config --kv-cache-metrics
    --kv-cache-metrics-sample --linear-backend --long-prefill-token-threshold
    --long-prefill-token-threshold-adaptive --max-cudagraph-capture-size --max-log-len
    --max-num-active-seqs --max-num-batched-tokens --max-num-queued-reqs --max-num-queued-tokens
    --max-num-scheduled-tokens --max-parallel-loading-workers --mm-ipc-gpu-memory-gb
    --mm-processor-cache-gb --mm-processor-cache-type --mm-shm-cache-max-object-size-mb
    --mm-tensor-ipc --moe-backend --num-gpu-blocks-override --numa-bind --numa-bind-cpus
    --numa-bind-nodes --offload-backend --offload-group-size --offload-num-in-group --offload-params
    --offload-prefetch-step --optimization-level --performance-mode --prefill-schedule-interval
    --prefix-cache-retention-interval --prefix-caching-hash-algo --pt-load-map-location
    --renderer-num-workers --safetensors-load-strategy --safetensors-prefetch-block-size
    --safetensors-prefetch-num-threads --scheduler-reserve-full-isl --scheduling-policy --seed
    --show-hidden-metrics-for-version --skip-mm-profiling --sleep-mode-offload-cudagraph
    --sleep-preserve-parameter-names --stream-interval --ubatch-size --use-tqdm-on-load
"""
_OF_BOTH_ROLES = """
    --allow-deprecated-quantization --allowed-media-domains --anthropic-disabled-thinking-effort
    --attention-backend --attention-config -ac --aux-output-config --chat-template-content-format
    --cohere-format --cohere-is-reasoning-model --config-format --cp-kv-cache-interleave-size
    --dcp-comm-backend --dcp-kv-cache-interleave-size --dcp-q-replicate
    --decode-context-parallel-size -dcp --default-chat-template-kwargs --diffusion-config -dc
    --disable-hybrid-kv-cache-manager --disable-sliding-window --enable-auto-tool-choice
    --enable-flash-late-interaction --enable-force-include-usage --enable-hc-sp
    --enable-mamba-cache-stochastic-rounding --enable-mamba-shared-prefix-checkpoint
    --enable-mixed-moe-lora-format --enable-moe-shared-loras --enable-per-request-metrics
    --enable-request-id-headers --enable-return-routed-experts --enable-tower-connector-lora
    --engram-config --exclude-tools-when-tool-choice-none --fingerprint-mode --fingerprint-value
    --fully-sharded-loras --gdn-prefill-backend --generation-config --h11-max-header-count
    --h11-max-incomplete-event-size --hf-overrides --ignore-patterns --interleave-mm-strings
    --ir-op-priority --kda-decode-backend --kda-prefill-backend --kv-cache-dtype
    --kv-cache-dtype-skip-layers --kv-sharing-fast-prefill --language-model-only
    --limit-mm-per-prompt --load-format --logprobs-mode --lora-dtype --lora-target-modules
    --mamba-backend --mamba-block-size --mamba-cache-dtype --mamba-cache-mode
    --mamba-cache-philox-rounds --mamba-ssm-cache-dtype --mamba-ssu-algorithm --max-cpu-loras
    --max-logprobs --max-lora-cls-labels --max-lora-rank --max-loras --media-io-kwargs
    --mm-device-do-normalize --mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-tp-mode
    --mm-hasher-algorithm --mm-processor-device --mm-processor-kwargs --model-impl
    --override-generation-config --per-request-spec-decode-metrics --pooler-config
    --prefix-match-unit --quantization-config --reasoning-config --reasoning-parser
    --replayssm-buffer-len --response-role --return-sampling-mask --return-tokens-as-token-ids
    --sparse-indexer-topk-backend --spec-method --spec-model --spec-tokens --specialize-active-lora
    --speculative-config -sc --structured-outputs-config.backend
    --structured-outputs-config.disable_additional_properties
    --structured-outputs-config.disable_any_whitespace
    --structured-outputs-config.enable_in_reasoning --structured-outputs-config.reasoning_parser
    --swa-bounded-replay --tokenizer --tokenizer-mode --tokenizer-revision --tool-call-parser
    --tool-strict-level --use-fp64-gumbel --use-replayssm --video-pruning-method
    --video-pruning-rate --watermark --watermark-config
"""
OF_ONE_ROLE = frozenset(_OF_ONE_ROLE.split())
"""Options for speed, memory and logs: prefill and decode may have different ones."""
ALLOWED = OF_ONE_ROLE | frozenset(_OF_BOTH_ROLES.split())
"""Options that change how an engine computes, and nothing else. With a dot: only that part.

Options of both roles may shape the text, or the KV blocks that prefill engines pass to decode
engines.
"""


@dataclass(frozen=True, slots=True)
class VllmOption:
    """An argument in vLLM's own spelling.

    Attributes:
        name: the option, without the part of it that a dot names.
        part: that part, with its dot.
        rest: its value, with the equals sign.
    """

    name: str
    part: str
    rest: str

    @property
    def positive(self) -> str:
        """Return the option that `--no-option` turns off."""
        positive = self.name.removeprefix("--no-")
        return self.name if positive == self.name else f"--{positive}"

    @property
    def text(self) -> str:
        """Return the whole argument."""
        return self.name + self.part + self.rest


def read_option(argument: str) -> VllmOption:
    """Read an item of `extraArgs`."""
    given, equals, value = argument.partition("=")
    name, dot, part = given.partition(".")
    return VllmOption(name.replace("_", "-"), dot + part, equals + value)


def shared_options(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that prefill and decode must share, in one order and spelling."""
    read = map(read_option, arguments)
    return tuple(sorted(each.text for each in read if each.positive not in OF_ONE_ROLE))
