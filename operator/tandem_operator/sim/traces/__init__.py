"""What users ask for: read, recorded or made."""
