"""All effects on the Kubernetes API: reads, server-side apply, status, Events, the Lease."""
