"""Pure: a pool, what was seen of it and a decision -> Kubernetes objects, status and Events."""
