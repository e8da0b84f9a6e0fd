"""`python -m tandem_operator.cli`."""

from tandem_operator.cli.app import main

main()
