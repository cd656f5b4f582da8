"""Errors in a user's code are shown with the frames of that code only."""

import importlib.util

import pytest

from fleetrec.cli.user_traceback import user_traceback
from fleetrec.nn.mlp import Mlp


def test_only_frames_of_the_users_file_are_shown(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "from fleetrec.nn.mlp import Mlp\n\n\n"
        "def build():\n    return inner()\n\n\ndef inner():\n    return Mlp('wide', [1])\n"
    )
    spec = importlib.util.spec_from_file_location("someones_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(TypeError) as found:
        module.build()
    # The frame of this test is in a checkout, as a user's script would be.
    text = "\n".join(user_traceback(found.value))
    assert f'File "{path}", line 5, in build' in text
    assert f'File "{path}", line 9, in inner' in text
    assert "nn/mlp.py" not in text
    assert text.splitlines()[-1].startswith("TypeError: ")


def test_an_error_outside_of_user_code_has_no_such_frames():
    error = None
    try:
        exec(compile("import math; math.sqrt(-1)", "<text>", "exec"))
    except ValueError as caught:
        error = caught
    assert error is not None
    error.__traceback__ = error.__traceback__.tb_next
    assert user_traceback(error) == []


def test_widths_below_one_are_refused_with_a_reason():
    with pytest.raises(ValueError, match=r"at least 1, got \[4, 0\]"):
        Mlp(3, [4, 0])
