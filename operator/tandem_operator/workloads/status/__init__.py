"""What a pool says of itself: its conditions, its status and its Events."""
