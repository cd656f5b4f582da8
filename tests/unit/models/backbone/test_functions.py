"""Functions of pipelines return what TensorFlow's would."""

import pytest
import torch

from fleetrec.models.backbone.functions import Function

X = torch.arange(12.0).reshape(3, 4)
CASES = {
    "lambda x: x[:, 1]": X[:, 1],
    "lambda x: tf.concat([x, x], axis=1)": torch.cat([X, X], dim=1),
    "lambda x: tf.add_n([x, x, x])": 3 * X,
    "lambda x: tf.stack([x, x], axis=1)": torch.stack([X, X], dim=1),
    "lambda x: tf.reduce_sum(x, axis=1, keepdims=True)": X.sum(1, keepdim=True),
    "lambda x: tf.reduce_sum(x)": X.sum(),
    "lambda x: tf.reduce_max(x, 1)": X.amax(1),
    "lambda x: tf.reduce_prod(x, axis=[0, 1])": X.prod(),
    "lambda x: tf.unstack(tf.reshape(x, [-1, 2, 2]), axis=1)[1]": X.reshape(3, 2, 2)[:, 1],
    "lambda x: tf.split(x, 2, axis=1)[0]": X[:, :2],
    "lambda x: tf.split(x, [1, 3], axis=1)[1]": X[:, 1:],
    "lambda x: tf.slice(x, [0, 1], [-1, 2])": X[:, 1:3],
    "lambda x: tf.transpose(x, [1, 0])": X.T,
    "lambda x: tf.matmul(x, x, transpose_b=True)": X @ X.T,
    "lambda x: tf.expand_dims(x, -1)": X.unsqueeze(-1),
    "lambda x: tf.squeeze(tf.expand_dims(x, 1), axis=1)": X,
    "lambda x: tf.gather(x, [2, 0], axis=1)": X[:, [2, 0]],
    "lambda x: tf.tile(x, [1, 2])": X.repeat(1, 2),
    "lambda x: tf.where(x > 3, x, tf.zeros_like(x))": torch.where(X > 3, X, torch.zeros_like(X)),
    "lambda x: tf.maximum(x, 3)": X.clamp(min=3),
    "lambda x: tf.cast(x, tf.int64) // 2": X.long() // 2,
    "lambda x: tf.nn.softmax(x)": torch.softmax(X, dim=-1),
    "lambda x: tf.nn.l2_normalize(x, axis=1)": torch.nn.functional.normalize(X, dim=1),
    "lambda x: sum([a for a in tf.unstack(x, axis=0)])": X.sum(0),
    "lambda x: x if len(x) > 5 else -x + 1": 1 - X,
    "lambda x: [*tf.unstack(x, axis=1)][-1]": X[:, -1],
}


@pytest.mark.parametrize("text", CASES)
def test_a_function_returns_what_its_text_says(text):
    assert torch.equal(Function(text)(X), CASES[text])


def test_a_slice_and_a_number_select_one_of_several():
    parts = [X, 2 * X]
    assert torch.equal(Function("[1]", is_slice=True)(parts), 2 * X)
    assert torch.equal(Function("[i]", is_slice=True)(parts, 1), 2 * X)
    assert torch.equal(Function("lambda x, i: x[i]")(parts, 1), 2 * X)


def test_an_error_names_the_function():
    with pytest.raises(ValueError, match=r"lambda x: x\[7\]: .*index"):
        Function("lambda x: x[7]")(X)
    with pytest.raises(ValueError, match="at most 10000 numbers"):
        Function("lambda x: range(10000000)")(X)
