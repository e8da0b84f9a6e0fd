"""What the core needs to know of a pool's spec, parsed into SI units."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo


class Mode(StrEnum):
    """What Tandem may do with the replica counts it decides."""

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
    """What the routers' settings put in place of spare replicas. Nothing unless said.

    Attributes:
        decode_gate: no request is let in that the decode replicas could serve only by slowing all.
        overflow: whole requests go to decode replicas that have slack.
    """

    decode_gate: bool = False
    overflow: bool = False


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Everything in the spec that a decision may depend on; nothing in it needs a pod restart.

    Attributes:
        rollout_gpus: what a rollout takes of the user's budget; `gpu_budget` is without it.
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

    @property
    def whole_budget(self) -> int | None:
        """The budget as its user wrote it."""
        return None if self.gpu_budget is None else self.gpu_budget + self.rollout_gpus

    @property
    def budget_words(self) -> str:
        """The budget as its user wrote it, and what of it a rollout takes."""
        if self.gpu_budget is None or not self.rollout_gpus:
            return f"gpuBudget {self.gpu_budget}"
        return f"gpuBudget {self.whole_budget} ({self.rollout_gpus} for the rollout)"
