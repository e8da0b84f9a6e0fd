"""The input of a command: manifests, traffic, profiles, a live pool, options."""
