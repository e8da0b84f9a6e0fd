"""Attainment that was bought beyond the objective."""

from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.units import amount, fleet_name, share


def overspent(tandem: Run, fixed: Run) -> str | None:
    """Return a sentence if Tandem exceeds the objective and a fixed fleet keeps it for less.

    Return `None` otherwise: then the attainment above the objective was free.
    """
    wanted = tandem.case.spec.slo.attainment
    reached, kept = tandem.report.attainment, fixed.report.attainment
    more = tandem.report.gpu_hours - fixed.report.gpu_hours
    if reached <= wanted or kept < wanted or more <= 0.0:
        return None
    return (
        f"Tandem attains {share(reached)}; the SLO needs {100.0 * wanted:g}%. It holds"
        f" {amount(more)} GPU-hours more than {fleet_name(fixed.case.start)}, which attains"
        f" {share(kept)} with {amount(fixed.report.gpu_hours)}. The SLO does not need them."
    )
