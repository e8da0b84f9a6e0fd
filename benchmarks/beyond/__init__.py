"""What a router and a fleet can do together beyond replica counts, in our own simulator."""
