"""The sources of settings, pods and other routers: Kubernetes, or files."""
