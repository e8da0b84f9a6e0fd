"""The commands of the README, as text."""

from __future__ import annotations

import re

_HEADING = "## On a cluster of your own\n"
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_POOL = re.compile(r"(<<POOL[^\n]*\n)(.*?)(^POOL\n)", re.MULTILINE | re.DOTALL)


def commands(readme: str) -> str:
    """Return the one bash block of the section on a cluster of one's own."""
    section = readme.partition(_HEADING)[2].partition("\n## ")[0]
    [block] = _BLOCK.findall(section)
    return str(block)


def pool(block: str) -> str:
    """Return the manifest that the block applies."""
    [(_, manifest, _)] = _POOL.findall(block)
    return str(manifest)


def with_pool(block: str, manifest: str) -> str:
    """Return the same commands, with another manifest to apply."""
    return _POOL.sub(lambda found: f"{found[1]}{manifest.rstrip()}\n{found[3]}", block, count=1)
