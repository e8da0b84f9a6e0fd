"""The one sentence in a pool's status, from vLLM's last lines. Pure."""

import re
from collections.abc import Sequence

from tandem_contracts.names import VLLM_IMAGE
from tandem_engine.serve.pool_fields import Worded, as_given

MESSAGE_BYTES = 2000

_PREFIX = re.compile(r"^(\(\w+ pid=\d+\) )?([A-Z]+ [\d-]+ [\d:]+ \[[^\]]+\] )?")
_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt))(?::\s*(.*))?$")
# Pydantic names the class first; the fault is on a later line, before a dump of all input.
_OF_A_MODEL = re.compile(r"\d+ validation errors? for \w+$")
_WRONG = re.compile(r"^(?:Value error|Assertion failed), (.*?)(?: \[type=.*)?$")
# The API server's message after its engine process is gone; the cause is in an earlier line, or
# missing.
_CAUSED_BY_ANOTHER = (
    "Engine core initialization failed",
    "Engine process failed to start",
    "EngineCore encountered an issue",
)

_CREDENTIAL = "HF_TOKEN (in a pool the Secret of huggingFace.tokenSecretRef)"
_KEYS = "the Secret of model.source.credentialsSecretRef"

# vLLM's words -> the user's remedy. The first entry that matches one of the lines counts. Errors of
# the Hub also contain their HTTP status, so more exact words come first.
_KNOWN = (
    (
        re.compile(r"NoCredentialsError|PartialCredentialsError|DefaultCredentialsError"),
        f"there are no credentials for the bucket; give them in {_KEYS}, or bind the "
        "ServiceAccount to an identity of the cloud",
    ),
    (
        re.compile(
            r"ClientError.*\((403|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch)\)|"
            r"Forbidden: 403"
        ),
        f"the object storage refused the credentials; check {_KEYS} and what its keys may read",
    ),
    (
        re.compile(r"NoSuchBucket|NotFound: 404 .*storage/v1"),
        "the object storage has no bucket of this name; check --model",
    ),
    (
        re.compile(r"EndpointConnectionError|Could not connect to the endpoint URL"),
        "this pod cannot reach the object storage; check AWS_ENDPOINT_URL and the network of the "
        "pod, such as pools.networkPolicies.engineEgress of the chart",
    ),
    (
        re.compile(r"Cannot find any safetensors model weights"),
        "there are no weights in safetensors below --model; give the folder that holds them",
    ),
    (
        re.compile(r"Unknown quantization method|[Qq]uantization method .* (is )?not supported"),
        "this vLLM does not support the method of --quantization; write one that it supports, such "
        "as fp8, or leave it out",
    ),
    (
        re.compile(r"[Qq]uantization method .* does not match|Cannot find the config file for"),
        "the checkpoint does not use the method of --quantization; leave it out",
    ),
    (
        re.compile(r"max_model_len .* is greater than the derived max_model_len"),
        "--max-model-len is above the limit of the model; write that limit or less",
    ),
    (
        re.compile(r"Invalid repository ID or local directory specified|No model weights found"),
        "--model holds no model; give a folder with config.json and weights",
    ),
    (
        # The Hub's client says "private or gated repo" also about a model that it does not know.
        re.compile(
            r"GatedRepoError|Access to model .* is restricted|access a gated repo|"
            r"Cannot access gated repo",
            re.I,
        ),
        "the model is gated on Hugging Face; accept its terms there; then give the token "
        f"of the same account as {_CREDENTIAL}",
    ),
    (
        re.compile(r"RevisionNotFoundError|is not a valid git identifier"),
        "Hugging Face has no such revision of the model; check --model-revision (in a pool "
        "huggingFace.revision), for example main",
    ),
    (
        re.compile(r"RepositoryNotFoundError|404 Client Error|is not a valid model identifier"),
        "Hugging Face has no model of this name, or it is private; check the name, or give a "
        f"token that may read it as {_CREDENTIAL}",
    ),
    (
        re.compile(r"Invalid (user )?token|Invalid credentials|401 Client Error", re.I),
        "Hugging Face refused the token or does not know the model; check the model's name and "
        f"{_CREDENTIAL}",
    ),
    (
        re.compile(
            r"LocalEntryNotFoundError|Max retries exceeded|NameResolutionError|"
            r"couldn't connect to|Failed to resolve",
            re.I,
        ),
        "this pod cannot reach Hugging Face; check its network, or serve the model from a volume",
    ),
    (
        re.compile(r"CUDA out of memory|OutOfMemoryError"),
        "the model does not fit into GPU memory; give more GPUs per replica, a quantized "
        "checkpoint or a smaller --max-model-len",
    ),
    (
        re.compile(r"No available memory for the cache blocks|larger than the available KV cache"),
        "the KV cache is too small for one request of --max-model-len tokens; give a larger "
        "--kv-cache-memory-bytes or a smaller --max-model-len",
    ),
    (
        re.compile(r"NIXL is not available"),
        "the NIXL of spec.engine.image does not load, perhaps made for another version of CUDA; "
        f"name another image, such as {VLLM_IMAGE}",
    ),
    (
        re.compile(r"Address already in use|\[Errno 98\]"),
        "another process uses a port of the engine; choose other ports",
    ),
    (
        re.compile(r"No space left on device|\[Errno 28\]"),
        "the disk or cache volume is full; give the pod a larger one",
    ),
    (
        re.compile(r"DefaultCPUAllocator: can't allocate memory|std::bad_alloc|MemoryError"),
        "the pod has too little memory for the model; raise its memory limit",
    ),
)

_SIGNALS = {
    9: "was killed, most often by the memory limit of the pod,",
    4: "was stopped by an unsupported CPU instruction",
}


def explain(
    lines: Sequence[str],
    *,
    exit_code: int | None,
    during: str,
    worded: Worded = as_given,
    who: str = "vLLM",
) -> str:
    """Return one sentence for a process, mostly vLLM, that ended or never got ready.

    `worded` puts advice into the reader's words. The process's own words are quoted unchanged.
    """
    cause = error_line(lines)
    ending = _ending(exit_code)
    for known, advice in _KNOWN:
        if any(known.search(line) for line in lines):
            said = f" ({cause})" if cause else ""
            return _bounded(f"{who} {ending} {during}: {worded(advice)}{said}")
    if cause is not None and _is_echo(cause):
        return _bounded(
            f"{who} {ending} {during}: its engine process ended without a message; raise the "
            "memory limit of the pod, or read its log"
        )
    last = cause or next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    return _bounded(f"{who} {ending} {during}: {last}")


def error_line(lines: Sequence[str]) -> str | None:
    """Return the last error of a log that is not only the consequence of an earlier one."""
    texts = [_PREFIX.sub("", line).strip() for line in lines]
    errors = [_whole(texts, at) for at, text in enumerate(texts) if _is_error(text)]
    causes = [text for text in errors if not _is_echo(text)]
    found = causes or errors
    return found[-1] if found else None


def _whole(texts: Sequence[str], at: int) -> str:
    """Return the error that begins at a line, with the cause in a later line."""
    if _OF_A_MODEL.search(texts[at]) is None:
        return texts[at]
    wrong = (found[1] for text in texts[at + 1 :] if (found := _WRONG.match(text)))
    return next(wrong, texts[at])


def _is_echo(text: str) -> bool:
    return any(mark in text for mark in _CAUSED_BY_ANOTHER)


def _is_error(text: str) -> bool:
    found = _ERROR.match(text)
    return found is not None and found[1] != "KeyboardInterrupt"


def _ending(exit_code: int | None) -> str:
    if exit_code is None or exit_code == 0:
        return "stopped"
    if exit_code < 0:
        return _SIGNALS.get(-exit_code, f"was ended by signal {-exit_code}")
    return f"ended with code {exit_code}"


def _bounded(text: str) -> str:
    return text.encode()[:MESSAGE_BYTES].decode(errors="ignore")
