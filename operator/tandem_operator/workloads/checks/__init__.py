"""What is wrong with a pool that its schema does not say."""
