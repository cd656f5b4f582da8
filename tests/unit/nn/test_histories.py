"""Layers over histories against their slow twins, and what they do with padding."""

import numpy as np
import pytest
import torch

from fleetrec.nn.encoder_block import EncoderBlock
from fleetrec.nn.gru import Gru
from fleetrec.nn.target_attention import TargetAttention
from reference import histories as slow
from unit.nn.test_interactions import arrays, shaken

B, L, D = 4, 5, 6
LENGTHS = torch.tensor([5, 0, 1, 3])
MASK = torch.arange(L) < LENGTHS[:, None]


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def parts(*layers):
    return [tuple(arrays(layer.weight, layer.bias)) for layer in layers]


def test_target_attention():
    layer = shaken(TargetAttention(D, hidden=[4, 3]))
    target, history = torch.randn(B, D), torch.randn(B, L, D)
    layers = parts(layer.mlp[0][0], layer.mlp[1][0])
    out, bias = arrays(layer.out.weight[0], layer.out.bias[0])
    got = layer(target, history, MASK).detach().numpy()
    for i, length in enumerate(LENGTHS):
        known = history[i, :length].numpy()
        want = slow.target_attention(target[i].numpy(), known, layers, out, bias)
        np.testing.assert_allclose(got[i], want, rtol=1e-9, atol=1e-12)
    assert not got[1].any()


@pytest.mark.parametrize("with_attention", [False, True])
def test_gru(with_attention):
    layer = shaken(Gru(D, 3))
    history = torch.randn(B, L, D)
    attention = torch.rand(B, L) if with_attention else torch.ones(B, L)
    states, last = layer(history, MASK, attention if with_attention else None)
    of_input, of_state = parts(layer.of_input, layer.of_state)
    for i, length in enumerate(LENGTHS):
        want = slow.gru(
            history[i, :length].numpy(), attention[i, :length].numpy(), of_input, of_state
        )
        for step in range(length):
            np.testing.assert_allclose(states[i, step].detach().numpy(), want[step], rtol=1e-9)
        final = want[-1] if want else np.zeros(3)
        np.testing.assert_allclose(last[i].detach().numpy(), final, rtol=1e-9, atol=1e-12)


def test_gru_equals_the_one_of_torch():
    """torch lets the update gate keep the old state: 1 - u, which is the gate of -x."""
    ours, theirs = shaken(Gru(D, 3)), torch.nn.GRU(D, 3, batch_first=True)
    with torch.no_grad():
        for one, other in (("of_input", "ih"), ("of_state", "hh")):
            weight, bias = getattr(ours, one).weight.clone(), getattr(ours, one).bias.clone()
            weight[3:6] *= -1
            bias[3:6] *= -1
            getattr(theirs, f"weight_{other}_l0").copy_(weight)
            getattr(theirs, f"bias_{other}_l0").copy_(bias)
    history = torch.randn(B, L, D)
    states, last = ours(history, torch.ones(B, L, dtype=torch.bool))
    want_states, want_last = theirs(history)
    torch.testing.assert_close(states, want_states)
    torch.testing.assert_close(last, want_last[0])


def test_encoder_block():
    heads, key_dim = 2, 4
    layer = shaken(EncoderBlock(D, num_heads=heads, key_dim=key_dim, hidden_dim=5))
    history = torch.randn(B, L, D)
    query, key, value = (
        list(w.reshape(heads, key_dim, D))
        for w in arrays(layer.query.weight, layer.key.weight, layer.value.weight)
    )
    names = ("project", "first_norm", "inner", "outer", "second_norm")
    others = dict(
        zip(
            names,
            parts(
                layer.project,
                layer.attention_norm,
                layer.feed_forward[0],
                layer.feed_forward[3],
                layer.feed_forward_norm,
            ),
            strict=True,
        )
    )
    got = layer(history, MASK).detach().numpy()
    for i, length in enumerate(LENGTHS):
        want = slow.encoder_block(
            list(history[i, :length].numpy()), query=query, key=key, value=value, **others
        )
        for step in range(length):
            np.testing.assert_allclose(got[i, step], want[step], rtol=1e-8, atol=1e-10)
        assert not got[i, length:].any()


def layers_over_histories():
    target, gru = TargetAttention(D, hidden=[4]), Gru(D, 3)
    encoder = EncoderBlock(D, num_heads=2, key_dim=4, hidden_dim=5)
    return {
        "target_attention": (target, lambda x, mask: target(x.new_ones(B, D), x, mask)),
        "gru": (gru, lambda x, mask: gru(x, mask)[1]),
        "augru": (gru, lambda x, mask: gru(x, mask, x.new_ones(x.shape[:2]))[1]),
        "encoder_block": (encoder, lambda x, mask: encoder(x, mask).sum(dim=1)),
    }


@pytest.mark.parametrize("name", layers_over_histories())
def test_padding_does_not_matter(name):
    layer, call = layers_over_histories()[name]
    shaken(layer)
    history = torch.randn(B, L, D)
    other = torch.where(MASK[..., None], history, 99.0)
    longer = torch.cat([other, torch.full((B, 2, D), -7.0)], dim=1)
    longer_mask = torch.cat([MASK, torch.zeros(B, 2, dtype=torch.bool)], dim=1)
    want = call(history, MASK)
    torch.testing.assert_close(call(other, MASK), want)
    torch.testing.assert_close(call(longer, longer_mask), want)


@pytest.mark.parametrize("name", layers_over_histories())
def test_empty_histories_give_finite_gradients(name):
    layer, call = layers_over_histories()[name]
    history = torch.randn(B, L, D, requires_grad=True)
    call(history, torch.zeros(B, L, dtype=torch.bool)).square().sum().backward()
    assert history.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("name", layers_over_histories())
def test_histories_of_no_length_are_taken(name):
    _, call = layers_over_histories()[name]
    assert not call(torch.zeros(B, 0, D), torch.zeros(B, 0, dtype=torch.bool)).any()
