"""Slow, obvious twins of the layers over histories: one sample, padding left out."""

import numpy as np

from reference.interactions import layer_norm, relu, sigmoid, softmax


def target_attention(target, history, layers, out, out_bias):
    """``layers`` are (weight, bias) of the hidden layers, with sigmoids."""
    total = np.zeros_like(target)
    for element in history:
        x = np.concatenate([target, element, target - element, target * element])
        for weight, bias in layers:
            x = sigmoid(weight @ x + bias)
        total = total + (float(np.dot(out, x)) + out_bias) * element
    return total


def gru(history, attention, of_input, of_state):
    """``of_input`` and ``of_state`` are (weight, bias), rows in the order reset, update, new."""
    size = of_state[0].shape[1]
    state, states = np.zeros(size), []
    for x, a in zip(history, attention, strict=True):
        ix, sx = of_input[0] @ x + of_input[1], of_state[0] @ state + of_state[1]
        reset = sigmoid(ix[:size] + sx[:size])
        update = a * sigmoid(ix[size : 2 * size] + sx[size : 2 * size])
        new = np.tanh(ix[2 * size :] + reset * sx[2 * size :])
        state = (1 - update) * state + update * new
        states.append(state)
    return states


def encoder_block(history, *, query, key, value, project, first_norm, inner, outer, second_norm):
    """query, key and value are lists by head; the others are (weight, bias)."""
    outputs = []
    for x in history:
        heads = []
        for q, k, u in zip(query, key, value, strict=True):
            scores = [float(np.dot(q @ x, k @ y)) / np.sqrt(q.shape[0]) for y in history]
            heads.append(sum(a * (u @ y) for a, y in zip(softmax(scores), history, strict=True)))
        mixed = project[0] @ np.concatenate(heads) + project[1]
        x = layer_norm(x + mixed, *first_norm)
        fed = outer[0] @ relu(inner[0] @ x + inner[1]) + outer[1]
        outputs.append(layer_norm(x + fed, *second_norm))
    return outputs
