"""Functions in pipelines are a small part of Python, and nothing else is accepted."""

import pytest

from fleetrec.config.pipeline_dialect.expression import parse_lambda, parse_slice

ALLOWED = (
    "lambda x: [x, x]",
    "lambda x: x[0]",
    "lambda x: x[:, 1:3]",
    "lambda x: tf.concat(x, axis=1)",
    "lambda x: tf.unstack(tf.reshape(x, [-1, 26, 16]), axis=1)",
    "lambda x: tf.reduce_sum(x, axis=1, keepdims=True)",
    "lambda x: [a * 2 for a in x if True]",
    "lambda x: tf.cast(x > 0, tf.float32) ** 2",
)
REFUSED = {
    "x[0]": "expected a function",
    "lambda x, y: x": "one argument",
    "lambda *x: x": "one argument",
    "lambda x: y": "unknown name 'y'",
    "lambda x: open('/etc/passwd')": "expected a function of tf",
    "lambda x: __import__('os')": "expected a function of tf",
    "lambda x: x.__class__": "x.__class__ is not supported",
    "lambda x: x.sum()": "expected a function of tf",
    "lambda x: tf.py_func(x)": "tf.py_func is not supported",
    "lambda x: tf.concatt(x)": "did you mean 'concat'?",
    "lambda x: (lambda y: y)(x)": "expected a function of tf",
    "lambda x: 9 ** 9 ** 9": "expected",
    "lambda x: x ** 99": "at most 16",
    "lambda x: [y for y in x for x in (z := 1,)]": "not supported",
    "lambda x: f'{x}'": "not supported",
    "lambda x: b'1'": "not supported",
    "lambda x: tf.concat(**x)": "not supported",
    "lambda x: (": "cannot be parsed",
}


@pytest.mark.parametrize("text", ALLOWED)
def test_a_function_of_tensors_is_accepted(text):
    parse_lambda(text)


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_is_refused(text):
    with pytest.raises(ValueError, match=REFUSED[text].replace("?", "[?]")):
        parse_lambda(text)


def test_a_copy_may_know_its_number():
    parse_lambda("lambda x, i: x[i]", is_numbered=True)
    parse_slice("[i]", is_numbered=True)
    with pytest.raises(ValueError, match="unknown name 'i'"):
        parse_slice("[i]")


def test_a_slice_is_in_brackets():
    with pytest.raises(ValueError, match="in brackets"):
        parse_slice("1")


def test_a_text_without_end_is_not_parsed():
    with pytest.raises(ValueError, match="at most 2000 characters"):
        parse_lambda("lambda x: " + "[" * 5000)
