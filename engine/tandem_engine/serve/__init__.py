"""The launcher around vLLM that knows its role: start, warm up, report, drain, stop."""
