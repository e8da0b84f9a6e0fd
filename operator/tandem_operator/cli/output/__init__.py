"""The output of a command: rows, sentences, pages, files."""
