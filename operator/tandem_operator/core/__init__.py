"""Pure decisions: observe, learn, forecast, size, guard, explain. Plain data in, plain data out."""
