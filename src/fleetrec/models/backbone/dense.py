"""From the message of an MLP to its layers."""

from fleetrec.config.pipeline_dialect.layers import SOFTMAX, MlpMessage
from fleetrec.nn.dense_stack import DenseStack, DenseStyle


def stack_of(message: MlpMessage, in_dim: int) -> DenseStack:
    """Return the layers that a message describes."""
    return DenseStack(
        in_dim,
        message.hidden_units,
        style=_style(message, act=message.activation, norm=message.use_bn, bias=message.use_bias),
        final=_style(
            message,
            act=message.final_activation,
            norm=message.use_final_bn,
            bias=message.use_final_bias,
        ),
        dropout=message.dropout_ratio,
    )


def _style(message: MlpMessage, *, act: str, norm: bool, bias: bool) -> DenseStyle:
    return DenseStyle(
        act="linear" if act == SOFTMAX else act,  # type: ignore[arg-type]
        softmax=act == SOFTMAX,
        batch_norm=norm,
        norm_is_last=message.use_bn_after_activation,
        bias=bias,
        initial=message.initializer,
    )
