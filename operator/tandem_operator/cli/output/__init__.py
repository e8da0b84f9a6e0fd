"""What a command shows: rows, sentences, pages, files."""
