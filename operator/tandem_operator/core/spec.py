"""The part of a pool's spec that the core needs, parsed into SI units."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo, SloClass


class Mode(StrEnum):
    """The extent to which Tandem may set the replica counts of its decisions."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """Bounds of one role's fleet. `gpus_per_replica` is 1 unit where replicas hold no GPU."""

    min_replicas: int
    max_replicas: int
    gpus_per_replica: int
    managed: bool


@dataclass(frozen=True, slots=True)
class Insurance:
    """Router settings that save spare replicas. By default there are none.

    Attributes:
        decode_gate: requests wait if decode replicas could serve them only by slowing all streams.
        overflow: whole requests go to decode replicas that have slack.
    """

    decode_gate: bool = False
    overflow: bool = False


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which a schedule holds replicas.

    Attributes:
        schedule: its name.
        floors: the fewest replicas by role; a role that is absent has no floor of its own.
        start_s, end_s: epoch seconds; no end is known of a period that goes on and on.
        begins, ends: the same as people read them, such as `18:00 Europe/Berlin`.
    """

    schedule: str
    floors: Mapping[Role, int]
    start_s: float
    end_s: float | None
    begins: str
    ends: str | None

    def over(self, now_s: float) -> bool:
        """Return whether it has ended."""
        return self.end_s is not None and self.end_s <= now_s


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """All parts of the spec that a decision may depend on; none of them needs a pod restart.

    Attributes:
        slo: the strictest bounds of guaranteed requests, for which replicas are held.
        classes: of requests, if there are several.
        tenants: names of the tenants that routers report, if the pool has tenants.
        rollout_gpus: the part of the budget for a rollout; `gpu_budget` is without it.
        sleep_after_s: time without requests before both roles go to zero; `None`: never.
        periods: of all schedules, as far as they matter now: at least what is in force, and the
            next of each.
    """

    slo: Slo
    roles: Mapping[Role, RoleSpec]
    mode: Mode
    gpu_budget: int | None
    stabilization_s: float
    max_step: int | None
    max_model_len: int
    max_num_seqs: int
    priority: int = 0
    insurance: Insurance = Insurance()
    rollout_gpus: int = 0
    sleep_after_s: float | None = None

    @property
    def may_sleep(self) -> bool:
        """Return whether both roles may go to zero: together, or not at all."""
        return self.sleep_after_s is not None and all(each.managed for each in self.roles.values())

    classes: tuple[SloClass, ...] = ()
    tenants: tuple[str, ...] = ()
    periods: tuple[Period, ...] = ()

    @property
    def whole_budget(self) -> int | None:
        """Return the budget as written in the spec."""
        return None if self.gpu_budget is None else self.gpu_budget + self.rollout_gpus

    @property
    def budget_words(self) -> str:
        """Return the budget as written in the spec, and the part of it for a rollout."""
        if self.gpu_budget is None or not self.rollout_gpus:
            return f"gpuBudget {self.gpu_budget}"
        return f"gpuBudget {self.whole_budget} ({self.rollout_gpus} for the rollout)"
