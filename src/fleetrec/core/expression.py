"""Arithmetic over columns that a job writes as text; a small language, not Python.

Numbers, names, ``+ - * / ** %``, comparisons, ``and or not & | ~``, and some functions, with or
without ``tf.`` or ``tf.math.`` in front. A comparison is 1 or 0.
"""

import ast
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import DataError

MAX_LENGTH = 2000
Function = Callable[..., Any]

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "abs": np.abs,
        "ceil": np.ceil,
        "exp": np.exp,
        "floor": np.floor,
        "log": np.log,
        "log1p": np.log1p,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "pow": np.power,
        "round": np.round,
        "sign": np.sign,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "sqrt": np.sqrt,
        "square": np.square,
        "tanh": np.tanh,
        "to_float": lambda x: x,
        "where": np.where,
        "logical_and": lambda x, y: (x != 0) & (y != 0),
        "logical_or": lambda x, y: (x != 0) | (y != 0),
        "logical_not": lambda x: x == 0,
        "equal": np.equal,
        "not_equal": np.not_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
        "less": np.less,
        "less_equal": np.less_equal,
        "clip_by_value": np.clip,
        "cast": lambda x, _=None: x,
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.divide,
    }
)
PREFIXES = ("tf.math.", "tf.", "math.", "np.")
OPERATORS: Mapping[type[ast.AST], Function] = MappingProxyType(
    {
        ast.Add: np.add,
        ast.Sub: np.subtract,
        ast.Mult: np.multiply,
        ast.Div: np.divide,
        ast.Pow: np.power,
        ast.Mod: np.mod,
        ast.BitAnd: FUNCTIONS["logical_and"],
        ast.BitOr: FUNCTIONS["logical_or"],
        ast.And: FUNCTIONS["logical_and"],
        ast.Or: FUNCTIONS["logical_or"],
        ast.USub: np.negative,
        ast.UAdd: lambda x: x,
        ast.Not: FUNCTIONS["logical_not"],
        ast.Invert: FUNCTIONS["logical_not"],
        ast.Eq: np.equal,
        ast.NotEq: np.not_equal,
        ast.Lt: np.less,
        ast.LtE: np.less_equal,
        ast.Gt: np.greater,
        ast.GtE: np.greater_equal,
    }
)


class Expression:
    """A parsed expression over named numbers."""

    def __init__(self, text: str) -> None:
        """Parse the text; raises DataError if it is not of this language."""
        self._text = text
        if len(text) > MAX_LENGTH:
            raise DataError(f"expression of {len(text)} characters, expected at most {MAX_LENGTH}")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise DataError(f"{text!r} is not an expression: {error}") from error
        self.argument: str | None = None
        if isinstance(self._tree, ast.Lambda):
            (argument,) = self._tree.args.args or [ast.arg(arg="x")]
            self.argument, self._tree = argument.arg, self._tree.body
        elif isinstance(self._tree, ast.Attribute) or text.strip() in FUNCTIONS:
            name = ast.Name(id="x", ctx=ast.Load())
            self.argument = "x"
            self._tree = ast.Call(func=self._tree, args=[name], keywords=[])
        names: list[str] = []
        self._check(self._tree, names)
        self.names = tuple(dict.fromkeys(names))

    def __call__(self, values: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        """Return the value as numbers."""
        with np.errstate(all="ignore"):
            return np.asarray(self._value(self._tree, values)).astype(np.float32)

    def _check(self, node: ast.AST, names: list[str]) -> None:
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return
            case ast.Name(id=name):
                names.append(name)
                return
            case ast.Call(func=function, args=args, keywords=[]) if self._function(function):
                inner: list[ast.AST] = list(args)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                inner = [left, right]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                inner = [operand]
            case ast.BoolOp(values=values):
                inner = list(values)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in OPERATORS for op in ops
            ):
                inner = [left, *others]
            case _:
                shown = ast.unparse(node)
                raise DataError(
                    f"{self._text!r}: {shown!r} is not supported; functions are "
                    f"{', '.join(sorted(FUNCTIONS))}"
                )
        for one in inner:
            self._check(one, names)

    def _function(self, node: ast.AST) -> Function | None:
        name = ast.unparse(node)
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        return FUNCTIONS.get(name)

    def _value(self, node: ast.AST, values: Mapping[str, Any]) -> Any:  # noqa: PLR0911
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return values[name]
            case ast.Call(func=function, args=args):
                made = self._function(function)
                assert made is not None, "checked"
                return made(*(self._value(one, values) for one in args))
            case ast.UnaryOp(op=op, operand=operand):
                return OPERATORS[type(op)](self._value(operand, values))
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](self._value(left, values), self._value(right, values))
            case ast.BoolOp(op=op, values=parts):
                found = [self._value(one, values) for one in parts]
                return functools.reduce(OPERATORS[type(op)], found)
        assert isinstance(node, ast.Compare), "checked"
        sides = [self._value(one, values) for one in (node.left, *node.comparators)]
        results = [
            OPERATORS[type(op)](left, right)
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
        ]
        return functools.reduce(FUNCTIONS["logical_and"], results)
