"""A pool of two prefill and two decode pods, for benchmarks that send it too much."""

from benchmarks.simulator.__main__ import profile_of
from benchmarks.simulator.cases import Case
from benchmarks.simulator.kept import NOTED
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Policy, Static, Tandem
from tandem_operator.sim.pool import Pool, PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.router_queue import QueueSettings
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.trace import Trace

FLEET = {Role.PREFILL: 2, Role.DECODE: 2}
GPUS = 16


def served(
    trace: Trace,
    *,
    slo: Slo,
    patience_s: float,
    classes: tuple[SloClass, ...] = (),
    router: QueueSettings | None = None,
    sized: bool = False,
) -> tuple[PoolReport, Pool]:
    """Serve a trace; return the report, and the pool with its requests.

    Args:
        trace: the requests.
        slo: the pool's bounds.
        patience_s: how long the simulation goes on after the last request.
        classes: the pool's classes.
        router: settings of its router; `None`: the defaults.
        sized: whether Tandem sizes the fleet, with at most `GPUS`; else it stays as it is.
    """
    spec = PoolSpec(
        slo=slo,
        roles={role: RoleSpec(1, GPUS, 1, True) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=GPUS,
        stabilization_s=60.0,
        max_step=None,
        max_model_len=20_000,
        max_num_seqs=256,
        insurance=Insurance(decode_gate=True, overflow=True),
        classes=classes,
    )
    profile = profile_of(Case("A", ()), NOTED)
    setup = PoolSetup("pool", spec, trace, profile, FLEET, router=router or QueueSettings())
    scenario = Scenario(
        pools=(setup,), cold_start=ColdStart(60.0), gpus=GPUS, patience_s=patience_s
    )
    policy: Policy = Tandem() if sized else Static(FLEET)
    simulation = Simulation(scenario, {"pool": policy})
    report = simulation.run()["pool"]
    return report, simulation.pool("pool")
