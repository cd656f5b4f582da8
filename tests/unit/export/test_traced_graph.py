"""A batch of zeros for a model, as its exporter needs one."""

from fleetrec.export.traced_graph import sample_batch
from unit.export.test_inference import INPUTS, TwoSided


def test_a_sample_batch_has_zeros_in_the_shapes_of_the_model():
    batch = sample_batch(TwoSided(), INPUTS, num_samples=3)
    assert batch.num_samples == 3
    assert batch.dense["price"].shape == (3, 2)
    assert not any(tensor.any() for tensor in batch.embedded.values())
