"""The forecast: the rate of arrivals until a start-up time is over, and its uncertainty."""
