"""`docs/measurements/faults.md`, made from results."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from e2e.faults.results import Result
from e2e.faults.scenario import Family, Loss, Scenario, Where

LONGEST = 140
HEAD = """\
# Faults

What is done to a pool, what became of the requests, and what its status said. This page is made by
`python -m e2e.faults --table` from the results of `make faults`; nothing in it is written by hand.

Every run checks, in code (`e2e/faults/invariants.py`):

* accepted = finished + honestly refused (429 or 503 with Retry-After) + held by what was killed;
* no wrong token: on kind each answer is compared, token by token, with the undisturbed one
  (temperature 0, a fresh `cache_salt` each), answers that broke off as far as they went;
* no request hangs, the GPU budget is never exceeded, nothing shrinks on missing data, and both
  roles are at zero or none;
* where a scenario says what status must name, status names it within 30 s; of the others the table
  shows what status said and no more;
* the pool is whole again in time. In the simulator, where pods come and go with the load, it
  is whole while nine of ten requests keep their bounds.

Status is quoted as it was said at the commits of the runs. Later versions word some sentences
differently: the [decision reference](../reference/decision-reference.md) has the present ones.

| where | what is real there |
|---|---|
| kind | everything: operator, routers, vLLM with NIXL, Kubernetes; 2 requests/s, 70 % streamed |
| simulator | the decision core; engines, routers and time are simulated: 4-40 requests/s |
| api | operator, API server, etcd, controllers; no kubelet and no requests |
"""


def page(
    scenarios: Sequence[Scenario],
    results: Mapping[tuple[str, int], Result],
    *,
    command: str,
    sequences: Sequence[Scenario] = (),
) -> str:
    """Return the whole page."""
    parts = [HEAD, _summary(scenarios, results, command)]
    for family in Family:
        lines = [_line(s, _of(s, results)) for s in scenarios if s.family is family]
        parts.append(f"\n## {family[0].upper()}{family[1:]}\n\n{_HEADER}")
        parts.extend(lines)
    if sequences:
        parts.append(f"\n## Random sequences\n\n{_HEADER}")
        parts.extend(_line(each, _of(each, results)) for each in sequences)
    parts.append(_violations((*scenarios, *sequences), results))
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"


_HEADER = (
    "| scenario | where | runs | sent | finished | refused | lost | wrong | whole again, worst "
    "| status said | holds |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def _of(scenario: Scenario, results: Mapping[tuple[str, int], Result]) -> list[Result]:
    return [result for (name, _), result in sorted(results.items()) if name == scenario.name]


def _summary(
    scenarios: Sequence[Scenario], results: Mapping[tuple[str, int], Result], command: str
) -> str:
    played = [s for s in scenarios if _of(s, results)]
    holding = [s for s in played if all(r.holds for r in _of(s, results))]
    runs = [r for s in scenarios for r in _of(s, results)]
    total = Counter[str]()
    for run in runs:
        total.update(
            sent=run.sent,
            finished=run.finished,
            refused=run.refused,
            lost=run.lost,
            hung=run.hung,
            wrong=run.wrong,
        )
    kind = Counter[str]()
    for run in (r for r in runs if r.where == Where.KIND):
        kind.update(sent=run.sent, finished=run.finished, lost=run.lost, wrong=run.wrong)
    codes = ", ".join(sorted({run.code for run in runs})) or "none"
    return (
        f"\n**{len(holding)} of {len(scenarios)} scenarios hold in every run**; {len(played)} were "
        f"played, {len(runs)} runs in all.\n"
        f"{total['sent']:,} requests: {total['finished']:,} finished, {total['refused']:,} "
        f"refused, {total['lost']:,} lost, {total['hung']:,} hung, {total['wrong']:,} wrong. "
        f"On kind: {kind['sent']:,} sent, {kind['finished']:,} finished, {kind['lost']:,} lost, "
        f"{kind['wrong']:,} wrong.\n\n"
        f"Made with `{command}` at {codes}.\n"
    )


def _line(scenario: Scenario, runs: Sequence[Result]) -> str:
    name = f"`{scenario.name}`: {scenario.what}"
    if not runs:
        return f"| {name} | {scenario.where} | 0 | | | | | | | | not played |"
    recovered = [run.recovered_s for run in runs]
    worst = "never" if None in recovered else f"{max(s for s in recovered if s is not None):.0f} s"
    held = sum(run.holds for run in runs)
    served = scenario.where is not Where.API
    counts = [
        str(sum(getattr(run, each) for run in runs)) if served else "-"
        for each in ("sent", "finished", "refused")
    ]
    lost = _lost(scenario, runs) if served else "-"
    wrong = str(sum(run.wrong for run in runs)) if scenario.where is Where.KIND else "-"
    cells = [name, scenario.where, str(len(runs)), *counts, lost, wrong, worst]
    verdict = "yes" if held == len(runs) else f"**no**, in {len(runs) - held} of {len(runs)}"
    return "| " + " | ".join([*cells, _said(scenario, runs), verdict]) + " |"


def _lost(scenario: Scenario, runs: Iterable[Result]) -> str:
    lost = sum(run.lost + run.hung for run in runs)
    if not lost:
        return "0"
    why = scenario.may_lose if scenario.may_lose is not Loss.NOTHING else "without cause"
    return f"{lost}: {why}"


def _said(scenario: Scenario, runs: Sequence[Result]) -> str:
    said = [text for run in runs for text in run.said]
    if scenario.names is not None:
        named = [run.named_s for run in runs if run.named_s is not None]
        when = f" (after {max(named):.0f} s at most)" if named else ""
        return (_cell(said[0]) + when) if named and said else "nothing of it"
    return _cell(said[0]) if said else "nothing: it needs no word"


def _cell(text: str) -> str:
    shown = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return shown.replace("|", "/").replace("\n", " ")


def _violations(scenarios: Sequence[Scenario], results: Mapping[tuple[str, int], Result]) -> str:
    lines = [
        f"* `{scenario.name}`, seed {run.seed} at {run.code}: {_cell('; '.join(run.violations))}"
        for scenario in scenarios
        for run in _of(scenario, results)
        if not run.holds
    ]
    if not lines:
        return ""
    return "\n## What does not hold\n\n" + "\n".join(lines)
