"""The ports: for clients, and for the operator, Prometheus and other routers."""
