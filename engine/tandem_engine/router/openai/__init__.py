"""Requests and answers of clients: checked, kept as bytes, and assembled."""
