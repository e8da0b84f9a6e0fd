"""Runs in the engine environment: parse vLLM arguments with vLLM's own parser, one list a line.

Reads JSON lists on standard input, writes one JSON object each: what was parsed, or the error.
"""

import contextlib
import io
import json
import os
import sys


def main() -> None:
    # vLLM logs to standard output; the answers need a way of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    for line in sys.stdin:
        complaint = io.StringIO()
        answer: dict[str, object] = {}
        try:
            with contextlib.redirect_stderr(complaint):
                parsed = parser.parse_args(json.loads(line))
                validate_parsed_serve_args(parsed)
            transfer = parsed.kv_transfer_config
            answer = {
                "model": parsed.model_tag or parsed.model,
                "port": parsed.port,
                "served_model_name": parsed.served_model_name,
                "revision": parsed.revision,
                "dtype": parsed.dtype,
                "quantization": parsed.quantization,
                "kv_cache_dtype": parsed.kv_cache_dtype,
                "block_size": parsed.block_size,
                "enable_prefix_caching": parsed.enable_prefix_caching,
                "tensor_parallel_size": parsed.tensor_parallel_size,
                "max_num_seqs": parsed.max_num_seqs,
                "max_model_len": parsed.max_model_len,
                "kv_cache_memory_bytes": parsed.kv_cache_memory_bytes,
                "enforce_eager": parsed.enforce_eager,
                "shutdown_timeout": parsed.shutdown_timeout,
                "kv_role": transfer.kv_role,
                "kv_connector": transfer.kv_connector,
                "kv_buffer_device": transfer.kv_buffer_device,
                "kv_load_failure_policy": transfer.kv_load_failure_policy,
            }
        except (SystemExit, Exception) as error:
            answer = {"error": complaint.getvalue() or repr(error)}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
