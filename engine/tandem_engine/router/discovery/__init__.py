"""Where settings, pods and other routers come from: Kubernetes, or files."""
