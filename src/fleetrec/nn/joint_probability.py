"""The probability that two events happen, of which the second follows the first."""

# Shape suffixes: B samples.

import torch
from torch import Tensor
from torch.nn import functional


def joint_logit(first_B: Tensor, second_B: Tensor) -> Tensor:
    """Return the logit of sigmoid(first) * sigmoid(second), without cancellation."""
    log_joint_B = functional.logsigmoid(first_B) + functional.logsigmoid(second_B)
    # 1 - ab = (1 - a) + a (1 - b)
    log_other_B = torch.logaddexp(
        functional.logsigmoid(-first_B),
        functional.logsigmoid(first_B) + functional.logsigmoid(-second_B),
    )
    return log_joint_B - log_other_B
