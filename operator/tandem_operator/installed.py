"""`python -m tandem_operator.installed URL`: are the CRDs served, and does the operator answer?

The pod of `helm test` runs it. It reads only data that every account may read, and changes nothing.
"""

import asyncio
import sys
from collections.abc import Sequence

import aiohttp
from kubernetes.aio.config import ConfigException

from tandem_operator.kube.client import ApiServerError, Kube, connect
from tandem_operator.kube.kinds import POOL, POOL_ROLE

PATIENCE_S = 60.0
"""Time to wait: a Deployment that was just installed pulls its image first."""
_AGAIN_S = 1.0
_ANSWER_S = 5.0


async def faults(kube: Kube, url: str) -> tuple[str, ...]:
    """Return a sentence for each thing that is missing now."""
    found = (await _crds(kube), await _health(url))
    return tuple(fault for fault in found if fault is not None)


async def _crds(kube: Kube) -> str | None:
    try:
        missing = [kind for kind in (POOL, POOL_ROLE) if not await kube.serves(kind)]
    except (ApiServerError, aiohttp.ClientError, OSError) as error:
        return f"The API server did not list its resources ({error})."
    if not missing:
        return None
    names = " and ".join(f"{kind.plural}.{kind.group}" for kind in missing)
    return (
        f"The API server does not serve {names}; set crds.enabled to true, or install this version"
        " of the chart tandem-crds."
    )


async def _health(url: str) -> str | None:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            if answer.ok:
                return None
            return f"The operator is not ready: {(await answer.text()).strip()}."
    except (aiohttp.ClientError, OSError) as error:
        why = str(error) or type(error).__name__
        return f"The operator does not answer at {url} ({why}); read the log of its pod."


async def wait_until_installed(
    kube: Kube, url: str, *, patience_s: float = PATIENCE_S
) -> tuple[str, ...]:
    """Return what is still missing after a while; empty as soon as nothing is missing."""
    clock = asyncio.get_running_loop().time
    ends_s, missing = clock() + patience_s, await faults(kube, url)
    while missing and clock() < ends_s:
        await asyncio.sleep(_AGAIN_S)
        missing = await faults(kube, url)
    return missing


async def _main(url: str) -> int:
    try:
        kube = await connect()
    except (ConfigException, OSError) as error:
        missing: Sequence[str] = (f"No cluster is reachable ({error}).",)
    else:
        try:
            missing = await wait_until_installed(kube, url)
        finally:
            await kube.close()
    text = "".join(f"{fault}\n" for fault in missing) or "The CRDs and the operator answer.\n"
    sys.stdout.write(text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(*sys.argv[1:])))
