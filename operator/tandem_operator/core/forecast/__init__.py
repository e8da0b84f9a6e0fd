"""How much will arrive until a start-up time is over, and how sure that is."""
