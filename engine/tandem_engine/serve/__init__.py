"""The launcher around vLLM for one role: start, warm up, report, drain, stop."""
