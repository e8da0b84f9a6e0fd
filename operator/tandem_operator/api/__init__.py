"""The API: pydantic models of the custom resource, SLO presets, and the CRD made from them."""

from tandem_operator.api.parse import InvalidPoolError, parse_pool
from tandem_operator.api.presets import PRESETS, Preset
from tandem_operator.api.v1alpha1 import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    ROLE_KIND,
    ROLE_PLURAL,
    VERSION,
)
from tandem_operator.api.v1alpha1.cost import Cost
from tandem_operator.api.v1alpha1.engine import Backend, Device, Dtype, Engine
from tandem_operator.api.v1alpha1.fleet import Fleet, Management, PodTemplate, Resources
from tandem_operator.api.v1alpha1.model import Model, ModelCache
from tandem_operator.api.v1alpha1.model_source import ModelSource
from tandem_operator.api.v1alpha1.placement import Placement
from tandem_operator.api.v1alpha1.pool import InferencePool, PoolMetadata, PoolSpec
from tandem_operator.api.v1alpha1.pool_role import (
    EFFECTIVE,
    PoolRoleStatus,
    RoleCondition,
)
from tandem_operator.api.v1alpha1.router import (
    DecodeAdmission,
    Limits,
    PrefillOverflow,
    PrefillPodChoice,
    RequestLog,
    Router,
    Timeouts,
)
from tandem_operator.api.v1alpha1.scaling import Metrics, MetricsSource, Scaling, ScalingMode
from tandem_operator.api.v1alpha1.schedule import Schedule
from tandem_operator.api.v1alpha1.slo import Service, Slo, SloBounds, SloClass, WhenLate
from tandem_operator.api.v1alpha1.status import (
    ClassStatus,
    Condition,
    ConditionType,
    CostStatus,
    DecisionStatus,
    ErrorBudgetStatus,
    FiguresStatus,
    LatencyStatus,
    PoolStatus,
    RoleStatus,
    RouterStatus,
    ScheduleStatus,
    SleepStatus,
    SloStatus,
    Step,
    TenantStatus,
    WakeStatus,
    parse_status,
)
from tandem_operator.api.v1alpha1.tenants import NamedTenant, OtherTenants, Tenants
from tandem_operator.api.values import (
    duration_s,
    format_duration,
    format_rate,
    format_ratio,
    quantity,
    ratio,
)

__all__ = [
    "API_VERSION",
    "EFFECTIVE",
    "GROUP",
    "KIND",
    "PLURAL",
    "PRESETS",
    "ROLE_KIND",
    "ROLE_PLURAL",
    "VERSION",
    "Backend",
    "ClassStatus",
    "Condition",
    "ConditionType",
    "Cost",
    "CostStatus",
    "DecisionStatus",
    "DecodeAdmission",
    "Device",
    "Dtype",
    "Engine",
    "ErrorBudgetStatus",
    "FiguresStatus",
    "Fleet",
    "InferencePool",
    "InvalidPoolError",
    "LatencyStatus",
    "Limits",
    "Management",
    "Metrics",
    "MetricsSource",
    "Model",
    "ModelCache",
    "ModelSource",
    "NamedTenant",
    "OtherTenants",
    "Placement",
    "PodTemplate",
    "PoolMetadata",
    "PoolRoleStatus",
    "PoolSpec",
    "PoolStatus",
    "PrefillOverflow",
    "PrefillPodChoice",
    "Preset",
    "RequestLog",
    "Resources",
    "RoleCondition",
    "RoleStatus",
    "Router",
    "RouterStatus",
    "Scaling",
    "ScalingMode",
    "Schedule",
    "ScheduleStatus",
    "Service",
    "SleepStatus",
    "Slo",
    "SloBounds",
    "SloClass",
    "SloStatus",
    "Step",
    "TenantStatus",
    "Tenants",
    "Timeouts",
    "WakeStatus",
    "WhenLate",
    "duration_s",
    "format_duration",
    "format_rate",
    "format_ratio",
    "parse_pool",
    "parse_status",
    "quantity",
    "ratio",
]
