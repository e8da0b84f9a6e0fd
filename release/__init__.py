"""Releases: everything that a version of Tandem consists of, with the digests that name it."""
