"""Dashboards for Grafana, as code: `make crds` writes their JSON into the chart.

In the classic schema, which sidecars load: the newer one is a resource of Grafana's own API.
"""

import json
from collections.abc import Callable, Mapping

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from manifests.dashboards import fleet, operator_process, pool

DASHBOARDS: Mapping[str, Callable[[], Dashboard]] = {
    "fleet": fleet.dashboard,
    "operator": operator_process.dashboard,
    "pool": pool.dashboard,
}


def render() -> Mapping[str, str]:
    """Return the file of each dashboard, by its name."""
    return {f"{name}.json": _text(made()) for name, made in DASHBOARDS.items()}


def _text(made: Dashboard) -> str:
    found = made.build()
    # Grafana would number panels that have no id anew, and links to one panel would break.
    for number, panel in enumerate(found.panels or (), start=1):
        panel.id_val = number
    # A menu of newer versions would hide what is to be seen at once.
    for each in (*(found.links or ()), *(found.annotations.list_val or ())):
        each.placement = None
    return json.dumps(found, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
