"""End-to-end parts: a local cluster, its images, the demo and the tests that run on it."""
