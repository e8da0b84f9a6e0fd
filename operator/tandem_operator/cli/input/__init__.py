"""What a command is told: manifests, traffic, profiles, a live pool, options."""
