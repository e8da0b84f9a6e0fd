"""What is counted and told: to the operator, to Prometheus, to the record."""
