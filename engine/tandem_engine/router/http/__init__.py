"""The ports: one for clients, and one for the operator, Prometheus and other routers."""
