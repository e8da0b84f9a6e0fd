"""The reader of routers' and engines' metrics: directly or through Prometheus, never guessed."""
