"""Command line of releases: `python -m release --version 0.1.0`."""

from __future__ import annotations

import argparse
import sys

from e2e.cluster.progress import CannotContinueError
from manifests.generate import REGISTRY as NO_REGISTRY
from release.order import NO_DOWNLOADS, Order
from release.steps import release


def main() -> int:
    """Make one release; what is wrong or missing is one sentence on stderr and exit status 1."""
    arguments = _parser().parse_args()
    try:
        print(release(Order(**vars(arguments))))
    except CannotContinueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next run starts over, with what Docker has built", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m release",
        description="Images, charts, wheel, plugin, SBOMs, provenance and checksums of one version "
        "into build/release/VERSION. It names every image of Tandem by digest, pushed or not.",
    )
    parser.add_argument("--version", default="", help="the version of pyproject.toml")
    parser.add_argument(
        "--registry", default=NO_REGISTRY, help="where images and charts go: HOST or HOST/PATH"
    )
    parser.add_argument(
        "--downloads", default=NO_DOWNLOADS, help="where krew finds the release's files: a URL"
    )
    parser.add_argument("--push", action="store_true", help="push images and charts there")
    parser.add_argument(
        "--trial",
        action="store_true",
        help="also from a tree with changes, with the notes of [Unreleased], over an earlier push",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
