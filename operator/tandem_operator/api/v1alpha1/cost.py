"""`spec.cost`: the price of a GPU, so that figures can be shown in money."""

import re
from typing import Annotated

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.values import Quantity, is_positive_quantity, quantity, text_rule

_MOST = "100000"
# Kubernetes knows more forms of a quantity, such as those with a sign, than a price needs.
_PLAIN = "^[0-9]*[.]?[0-9]+$"


class Cost(ApiModel):
    """Price of a GPU. It is shown in status and metrics, and changes no decision."""

    per_gpu_hour: Annotated[
        Quantity,
        Field(alias="perGPUHour"),
        Rule(
            expression=(
                f"type(self) == string ? self.matches(r'{_PLAIN}') && isQuantity(self)"
                " && quantity(self).isGreaterThan(quantity('0')) "
                f" && quantity(self).isLessThan(quantity('{_MOST}'))"
                f" : self > 0 && self < {_MOST}"
            ),
            message=(
                f"cost.perGPUHour must be an amount above 0 and below {_MOST}; write for example"
                ' "2.49"'
            ),
            holds=lambda value: (
                re.fullmatch(_PLAIN, str(value)) is not None
                and is_positive_quantity(value)
                and quantity(value) < int(_MOST)
            ),
        ),
    ]
    """Price of one GPU for one hour, such as "2.49"; on CPU, of one engine pod. An amount with a
    point needs quotes."""
    currency: Annotated[
        str,
        Field(max_length=3),
        text_rule(
            pattern="^[A-Z]{3}$",
            message="cost.currency must be three capital letters; write for example USD",
        ),
    ] = "USD"
    """Currency of the price by its ISO 4217 code."""

    @property
    def price(self) -> float:
        """The price of one GPU for one hour, in `currency`."""
        return float(quantity(self.per_gpu_hour))
