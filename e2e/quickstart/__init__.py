"""The README's three commands, run as they stand there: on a bare cluster, from a registry."""
