"""Reading what routers and engines measured: directly or through Prometheus, never guessed."""
