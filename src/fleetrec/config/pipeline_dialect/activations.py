"""The names of activations in pipelines."""

ACTIVATIONS = (
    "relu",
    "gelu",
    "leaky_relu",
    "prelu",
    "dice",
    "elu",
    "selu",
    "tanh",
    "swish",
    "sigmoid",
    "linear",
)
