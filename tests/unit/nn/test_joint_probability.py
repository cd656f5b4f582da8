"""The joint probability of a click and what follows it."""

import torch

from fleetrec.nn.joint_probability import joint_logit


def test_it_is_the_product_of_the_probabilities():
    first, second = torch.tensor([0.3, -2.0, 4.0]), torch.tensor([-1.0, 0.5, 3.0])
    joint = torch.sigmoid(joint_logit(first, second))
    torch.testing.assert_close(joint, torch.sigmoid(first) * torch.sigmoid(second))


def test_it_is_finite_where_probabilities_are_almost_zero_or_one():
    logits = torch.tensor([-60.0, 60.0], requires_grad=True)
    joint = joint_logit(logits, logits.flip(0))
    joint.sum().backward()
    assert joint.isfinite().all()
    assert logits.grad.isfinite().all()
