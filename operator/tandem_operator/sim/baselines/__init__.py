"""The published rules of other autoscalers for replica counts, for comparison."""
