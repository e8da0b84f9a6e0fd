"""The runs of a case, and the questions that several runs answer."""
