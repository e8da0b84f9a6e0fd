"""The gains of a router and a fleet together beyond replica counts, in our own simulator."""
