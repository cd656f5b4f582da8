"""Row optimizers by their formulas, in plain Python floats."""

import math


class Sgd:
    def new_state(self, dim):
        return []

    def update(self, weights, state, grad, lr):
        return [w - lr * g for w, g in zip(weights, grad, strict=True)], []


class Momentum:
    momentum = 0.9

    def new_state(self, dim):
        return [0.0] * dim

    def update(self, weights, state, grad, lr):
        velocity = [self.momentum * v + g for v, g in zip(state, grad, strict=True)]
        return [w - lr * v for w, v in zip(weights, velocity, strict=True)], velocity


class Adagrad:
    eps = 1e-6

    def new_state(self, dim):
        return [0.0] * dim

    def update(self, weights, state, grad, lr):
        sums = [s + g * g for s, g in zip(state, grad, strict=True)]
        moves = [g / (math.sqrt(s) + self.eps) for g, s in zip(grad, sums, strict=True)]
        return [w - lr * m for w, m in zip(weights, moves, strict=True)], sums


class RowwiseAdagrad:
    eps = 1e-8

    def new_state(self, dim):
        return [0.0]

    def update(self, weights, state, grad, lr):
        total = state[0] + sum(g * g for g in grad) / len(grad)
        rate = lr / (math.sqrt(total) + self.eps)
        return [w - rate * g for w, g in zip(weights, grad, strict=True)], [total]


class CtrAdagrad:
    initial = 3.0

    def new_state(self, dim):
        return [0.0]

    def update(self, weights, state, grad, lr):
        rate = lr * math.sqrt(self.initial / (self.initial + state[0]))
        total = state[0] + sum(g * g for g in grad) / len(grad)
        return [w - rate * g for w, g in zip(weights, grad, strict=True)], [total]


class CtrStdAdagrad:
    initial = 3.0

    def new_state(self, dim):
        return [0.0] * dim

    def update(self, weights, state, grad, lr):
        rates = [lr * math.sqrt(self.initial / (self.initial + s)) for s in state]
        new_weights = [w - r * g for w, r, g in zip(weights, rates, grad, strict=True)]
        return new_weights, [s + g * g for s, g in zip(state, grad, strict=True)]


class RmsProp:
    alpha, eps = 0.99, 1e-8

    def new_state(self, dim):
        return [0.0] * dim

    def update(self, weights, state, grad, lr):
        squares = [
            self.alpha * s + (1 - self.alpha) * g * g for s, g in zip(state, grad, strict=True)
        ]
        moves = [g / (math.sqrt(s) + self.eps) for g, s in zip(grad, squares, strict=True)]
        return [w - lr * m for w, m in zip(weights, moves, strict=True)], squares


class Ftrl:
    initial = 0.1

    def new_state(self, dim):
        return [self.initial] * dim + [0.0] * dim

    def update(self, weights, state, grad, lr):
        dim = len(weights)
        new_weights, squares, linear = [], [], []
        for w, n, z, g in zip(weights, state[:dim], state[dim:], grad, strict=True):
            total = n + g * g
            z += g - (math.sqrt(total) - math.sqrt(n)) / lr * w
            new_weights.append(-z / (math.sqrt(total) / lr))
            squares.append(total)
            linear.append(z)
        return new_weights, squares + linear


class Adam:
    beta1, beta2, eps, weight_decay = 0.9, 0.999, 1e-8, 0.0

    def new_state(self, dim):
        return [0.0] * (2 * dim + 1)

    def update(self, weights, state, grad, lr):
        dim, step = len(weights), state[-1] + 1
        first = [self.beta1 * m + (1 - self.beta1) * g for m, g in zip(state, grad, strict=False)]
        second = [
            self.beta2 * v + (1 - self.beta2) * g * g
            for v, g in zip(state[dim:], grad, strict=False)
        ]
        new_weights = []
        for w, m, v in zip(weights, first, second, strict=True):
            mean = m / (1 - self.beta1**step)
            mean_square = v / (1 - self.beta2**step)
            w *= 1 - lr * self.weight_decay
            new_weights.append(w - lr * mean / (math.sqrt(mean_square) + self.eps))
        return new_weights, [*first, *second, step]


class AdamW(Adam):
    weight_decay = 0.01


class MomentumW(Momentum):
    weight_decay = 1e-6

    def update(self, weights, state, grad, lr):
        return super().update([w - self.weight_decay * w for w in weights], state, grad, lr)


class LazyAdam:
    """The learning rate comes corrected for the bias of the moments."""

    beta1, beta2, eps, weight_decay = 0.9, 0.999, 1e-8, 0.0

    def new_state(self, dim):
        return [0.0] * (2 * dim)

    def update(self, weights, state, grad, lr):
        dim = len(weights)
        first = [self.beta1 * m + (1 - self.beta1) * g for m, g in zip(state, grad, strict=False)]
        second = [
            self.beta2 * v + (1 - self.beta2) * g * g
            for v, g in zip(state[dim:], grad, strict=True)
        ]
        new_weights = [
            w - self.weight_decay * w - lr * m / (math.sqrt(v) + self.eps)
            for w, m, v in zip(weights, first, second, strict=True)
        ]
        return new_weights, [*first, *second]


class LazyAdamW(LazyAdam):
    weight_decay = 1e-6


class RmsPropMomentum:
    decay, momentum, eps = 0.9, 0.9, 1.0

    def new_state(self, dim):
        return [1.0] * dim + [0.0] * dim

    def update(self, weights, state, grad, lr):
        dim = len(weights)
        squares = [
            self.decay * s + (1 - self.decay) * g * g for s, g in zip(state, grad, strict=False)
        ]
        velocity = [
            self.momentum * v + lr * g / math.sqrt(s + self.eps)
            for v, g, s in zip(state[dim:], grad, squares, strict=True)
        ]
        return [w - v for w, v in zip(weights, velocity, strict=True)], squares + velocity


class FtrlPower:
    initial, l1, l2, l2_shrinkage, power = 0.1, 0.0, 0.0, 0.0, -0.5

    def new_state(self, dim):
        return [self.initial] * dim + [0.0] * dim

    def update(self, weights, state, grad, lr):
        dim = len(weights)
        new_weights, squares, linear = [], [], []
        for w, n, z, g in zip(weights, state[:dim], state[dim:], grad, strict=True):
            total = n + g * g
            shrinking = g + 2 * self.l2_shrinkage * w
            z += shrinking - (total**-self.power - n**-self.power) / lr * w
            quadratic = total**-self.power / lr + 2 * self.l2
            new_weights.append(
                (math.copysign(self.l1, z) - z) / quadratic if abs(z) > self.l1 else 0.0
            )
            squares.append(total)
            linear.append(z)
        return new_weights, squares + linear


OPTIMIZERS = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adagrad": Adagrad,
    "rowwise_adagrad": RowwiseAdagrad,
    "ctr_adagrad": CtrAdagrad,
    "ctr_std_adagrad": CtrStdAdagrad,
    "rmsprop": RmsProp,
    "ftrl": Ftrl,
    "adam": Adam,
    "adamw": AdamW,
    "momentumw": MomentumW,
    "lazy_adam": LazyAdam,
    "lazy_adamw": LazyAdamW,
    "rmsprop_momentum": RmsPropMomentum,
    "ftrl_power": FtrlPower,
}
