"""What others do about replica counts, by their own published rules, to be measured against."""
