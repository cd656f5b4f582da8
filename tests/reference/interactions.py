"""Slow, obvious twins of the layers over fields: one sample, loops as in the papers' formulas.

``v`` is a list of vectors, one per field. Weights are numpy arrays.
"""

import numpy as np


def relu(x):
    return np.maximum(x, 0.0)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(scores):
    powers = [np.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def layer_norm(x, weight, bias):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weight + bias


def pairs(num_fields):
    return [(i, j) for i in range(num_fields) for j in range(i + 1, num_fields)]


def bi_interaction(v):
    return sum(v[i] * v[j] for i, j in pairs(len(v)))


def factorization_machine(v):
    return sum(float(np.dot(v[i], v[j])) for i, j in pairs(len(v)))


def field_aware(v):
    """``v[i][j]`` is the vector of field i for field j."""
    return sum(float(np.dot(v[i][j], v[j][i])) for i, j in pairs(len(v)))


def vector_cross(x, weights, biases):
    x0 = x
    for weight, bias in zip(weights, biases, strict=True):
        x = np.outer(x0, x) @ weight + bias + x
    return x


def matrix_cross(x, weights, biases):
    x0 = x
    for weight, bias in zip(weights, biases, strict=True):
        x = x0 * (weight @ x + bias) + x
    return x


def mixture_cross_layer(x0, x, *, down, inner, up, bias, gate):
    gates = softmax(list(gate @ x))
    total = np.zeros_like(x)
    for e in range(len(gates)):
        low = np.tanh(inner[e] @ np.tanh(down[e] @ x))
        total = total + gates[e] * (x0 * (up[e] @ low + bias))
    return total + x


def gated_cross(x, weights, biases, gates):
    x0 = x
    for weight, bias, gate in zip(weights, biases, gates, strict=True):
        x = x0 * (weight @ x + bias) * sigmoid(gate @ x) + x
    return x


def cin(v, weights):
    before, sums = v, []
    for weight in weights:
        now = []
        for n in range(weight.shape[0]):
            vector = np.zeros_like(v[0])
            for h in range(len(before)):
                for f in range(len(v)):
                    vector = vector + weight[n, h, f] * before[h] * v[f]
            now.append(vector)
        sums += [vector.sum() for vector in now]
        before = now
    return np.array(sums)


def inner_product(v, theta):
    outputs = []
    for n in range(theta.shape[0]):
        total = 0.0
        for i in range(len(v)):
            for j in range(len(v)):
                total += theta[n, i] * theta[n, j] * np.dot(v[i], v[j])
        outputs.append(total)
    return np.array(outputs)


def outer_product(v, weight):
    product = sum(np.outer(a, b) for a in v for b in v)
    return np.array([(weight[n] * product).sum() for n in range(weight.shape[0])])


def pair_attention(v, weight, bias, score):
    products = [v[i] * v[j] for i, j in pairs(len(v))]
    scores = softmax([float(np.dot(score, relu(weight @ p + bias))) for p in products])
    return sum(a * p for a, p in zip(scores, products, strict=True))


def field_attention(v, query, key, value, residual):
    """The first axis of query, key and value counts heads."""
    outputs = []
    for m in range(len(v)):
        heads = []
        for q, k, u in zip(query, key, value, strict=True):
            attention = softmax([float(np.dot(q @ v[m], k @ other)) for other in v])
            heads.append(sum(a * (u @ other) for a, other in zip(attention, v, strict=True)))
        outputs.append(relu(np.concatenate(heads) + residual @ v[m]))
    return outputs


def residual_unit(x, inner, inner_bias, outer, outer_bias):
    return relu(outer @ relu(inner @ x + inner_bias) + outer_bias + x)


def squeeze_excitation(v, squeeze, excite):
    means = np.array([vector.mean() for vector in v])
    weights = relu(excite @ relu(squeeze @ means))
    return [weight * vector for weight, vector in zip(weights, v, strict=True)]


def bilinear(v, weight, kind):
    outputs = []
    for p, (i, j) in enumerate(pairs(len(v))):
        matrix = {"all": 0, "each": i, "interaction": p}[kind]
        outputs.append((v[i] @ weight[matrix]) * v[j])
    return outputs


def group_interaction(v, group_sizes, between, within):
    bounds = np.cumsum([0, *group_sizes])
    groups = [v[bounds[m] : bounds[m + 1]] for m in range(len(group_sizes))]
    total = np.zeros_like(v[0])
    for p, (m, n) in enumerate(pairs(len(groups))):
        total = total + between[p] * sum(groups[m]) * sum(groups[n])
    for m, group in enumerate(groups):
        for i, j in pairs(len(group)):
            total = total + within[m] * group[i] * group[j]
    return total


def dot_interaction(v):
    return np.array([np.dot(v[i], v[j]) for i, j in pairs(len(v))])


def feature_generation(v, layers):
    """Layers are (convolution C' C K, bias C', pool, recombination, its bias, new per field)."""
    maps = [np.stack(v)]
    generated = []
    for convolution, bias, pool, weight, weight_bias in layers:
        kernel = convolution.shape[2]
        rows = maps[0].shape[0]
        convolved = []
        for c in range(convolution.shape[0]):
            out = np.full_like(maps[0], bias[c])
            for row in range(rows):
                for k in range(kernel):
                    source = row + k - (kernel - 1) // 2
                    if 0 <= source < rows:
                        for before in range(len(maps)):
                            out[row] = out[row] + convolution[c, before, k] * maps[before][source]
            convolved.append(np.tanh(out))
        pooled = rows // pool
        maps = [
            np.stack([m[g * pool : (g + 1) * pool].max(axis=0) for g in range(pooled)])
            for m in convolved
        ]
        flat = np.concatenate([m.reshape(-1) for m in maps])
        generated.append(np.tanh(weight @ flat + weight_bias).reshape(-1, v[0].size))
    return np.concatenate(generated)


def mask_block(embedded, x, *, aggregate, project, out, norm):
    """``aggregate``, ``project`` and ``norm`` are (weight, bias)."""
    mask = project[0] @ relu(aggregate[0] @ embedded + aggregate[1]) + project[1]
    return relu(layer_norm(out @ (mask * x), *norm))


def bilinear_fusion(left, right, *, left_weight, bias, right_weight, weight):
    total = float(np.dot(left_weight, left) + bias + np.dot(right_weight, right))
    heads = weight.shape[0]
    for h, (a, b) in enumerate(zip(np.split(left, heads), np.split(right, heads), strict=True)):
        total += float(a @ weight[h] @ b)
    return total


def euler_layer(z, *, orders, log_modulus, phase, implicit, implicit_bias):
    """``z`` are complex vectors by field; returns complex vectors before normalisation."""
    real = np.concatenate([vector.real for vector in z])
    imaginary = np.concatenate([vector.imag for vector in z])
    beside = relu(implicit @ real + implicit_bias) + 1j * relu(implicit @ imaginary + implicit_bias)
    outputs = []
    for n in range(orders.shape[0]):
        product = np.exp(log_modulus[n] + 1j * phase[n])
        for f, vector in enumerate(z):
            product = product * np.power(vector, orders[n, f])
        outputs.append(product)
    return np.stack(outputs) + beside.reshape(orders.shape[0], -1)
