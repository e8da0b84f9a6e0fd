"""A pool in virtual time: the live decision core, unchanged, in the loop of simulated fleets."""
