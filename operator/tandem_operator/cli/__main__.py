"""`tandem`, `kubectl tandem` and `python -m tandem_operator.cli`."""

import sys


def main() -> None:
    """Run the command line; say so if the package's extra is missing, as in the operator image."""
    try:
        from tandem_operator.cli.app import run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(f"tandem needs {error.name}: pip install 'tandem-inference[cli]'")
    run()


if __name__ == "__main__":
    main()
