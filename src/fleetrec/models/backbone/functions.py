"""Functions of pipelines, evaluated with torch: a small part of Python, never ``eval``."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from fleetrec.config.pipeline_dialect.expression import function_name, parse_lambda, parse_slice

DTYPES: Mapping[str, Any] = MappingProxyType(
    {
        "tf.float32": torch.float32,
        "tf.float64": torch.float64,
        "tf.int32": torch.int32,
        "tf.int64": torch.int64,
        "tf.bool": torch.bool,
    }
)
OPERATORS: Mapping[type, Callable[..., Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
        ast.MatMult: operator.matmul,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.USub: operator.neg,
        ast.UAdd: operator.pos,
        ast.Not: operator.not_,
    }
)

MAX_RANGE = 10_000


class Function:
    """One function of a value, and maybe of the number of a copy."""

    def __init__(self, text: str, *, is_slice: bool = False) -> None:
        self._text = text
        self._tree = (parse_slice if is_slice else parse_lambda)(text, is_numbered=True)

    def __call__(self, value: Any, number: int = 0) -> Any:
        """Return the result; an error names the function."""
        arguments = [*self._tree.args.posonlyargs, *self._tree.args.args]
        names = zip((one.arg for one in arguments), (value, number), strict=False)
        try:
            return _value(self._tree.body, dict(names))
        except (RuntimeError, TypeError, IndexError, ValueError, ZeroDivisionError) as error:
            raise ValueError(f"{self._text}: {error}") from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return DTYPES[ast.unparse(node)]
    if isinstance(node, ast.List | ast.Tuple):
        return _elements(node.elts, names)
    if isinstance(node, ast.Subscript):
        return _subscript(node, names)
    if isinstance(node, ast.Call):
        return _call(node, names)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.ListComp):
        return _comprehension(node, names)
    return _operation(node, names)


def _operation(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](_value(node.operand, names))
    assert isinstance(node, ast.Compare)
    if len(node.ops) != 1:
        raise ValueError("expected one comparison")
    left, right = _value(node.left, names), _value(node.comparators[0], names)
    return OPERATORS[type(node.ops[0])](left, right)


def _elements(nodes: list[ast.expr], names: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found.extend(_value(node.value, names))
        else:
            found.append(_value(node, names))
    return found


def _subscript(node: ast.Subscript, names: Mapping[str, Any]) -> Any:
    value = _value(node.value, names)
    index = _index(node.slice, names)
    return value[index] if isinstance(value, Tensor | list | tuple) else list(value)[index]


def _index(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else _value(part, names) for part in parts))
    if isinstance(node, ast.Tuple):
        return tuple(_index(part, names) for part in node.elts)
    return _value(node, names)


def _comprehension(node: ast.ListComp, names: Mapping[str, Any]) -> list[Any]:
    if len(node.generators) != 1:
        raise ValueError("expected one for")
    (part,) = node.generators
    assert isinstance(part.target, ast.Name)
    found = []
    for one in _value(part.iter, names):
        inner = {**names, part.target.id: one}
        if all(_value(condition, inner) for condition in part.ifs):
            found.append(_value(node.elt, inner))
    return found


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    name = function_name(node)
    words = {word.arg: _value(word.value, names) for word in node.keywords if word.arg}
    for old, new in (("axis", "dim"), ("keepdims", "keepdim"), ("keep_dims", "keepdim")):
        if old in words:
            words[new] = words.pop(old)
    words.pop("name", None)
    return CALLS[name](*_elements(node.args, names), **words)


def _concat(values: Any, dim: int = 0) -> Tensor:
    return torch.cat(list(values), dim=dim)


def _stack(values: Any, dim: int = 0) -> Tensor:
    return torch.stack(list(values), dim=dim)


def _unstack(value: Tensor, num: int | None = None, dim: int = 0) -> list[Tensor]:
    del num
    return list(torch.unbind(value, dim=dim))


def _split(value: Tensor, num_or_size_splits: Any, dim: int = 0) -> list[Tensor]:
    sizes = num_or_size_splits
    return list(
        torch.chunk(value, sizes, dim=dim)
        if isinstance(sizes, int)
        else torch.split(value, list(sizes), dim=dim)
    )


def _add_n(values: Any) -> Tensor:
    result: Tensor = reduce(operator.add, list(values))
    return result


def _reduced(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(value: Any, dim: Any = None, keepdim: bool = False) -> Tensor:  # noqa: FBT001, FBT002
        tensor = value if isinstance(value, Tensor) else torch.stack(list(value))
        axes = list(range(tensor.dim())) if dim is None else dim
        return fn(tensor, dim=axes, keepdim=keepdim)

    return call


def _product(value: Tensor, dim: Any, keepdim: bool) -> Tensor:  # noqa: FBT001
    axes = [dim] if isinstance(dim, int) else list(dim)
    for axis in sorted((one % value.dim() for one in axes), reverse=True):
        value = value.prod(dim=axis, keepdim=keepdim)
    return value


def _matmul(left: Tensor, right: Tensor, **turned: bool) -> Tensor:
    left = left.transpose(-1, -2) if turned.get("transpose_a") else left
    return left @ (right.transpose(-1, -2) if turned.get("transpose_b") else right)


def _transpose(value: Tensor, perm: Any = None) -> Tensor:
    order = list(range(value.dim()))[::-1] if perm is None else list(perm)
    return value.permute(order)


def _gather(value: Tensor, indices: Any, dim: int = 0) -> Tensor:
    places = indices if isinstance(indices, Tensor) else torch.tensor(indices, device=value.device)
    found = torch.index_select(value, dim, places.flatten().to(torch.int64))
    return found.squeeze(dim) if places.dim() == 0 else found


def _slice(value: Tensor, begin: Any, size: Any) -> Tensor:
    for axis, (first, count) in enumerate(zip(begin, size, strict=True)):
        value = value.narrow(axis, first, value.shape[axis] - first if count == -1 else count)
    return value


def _squeeze(value: Tensor, dim: Any = None) -> Tensor:
    axes = [dim] if isinstance(dim, int) else dim
    return value.squeeze() if axes is None else value.squeeze(tuple(axes))


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_RANGE:
        raise ValueError(f"expected at most {MAX_RANGE} numbers, got {len(found)}")
    return found


def _to_tensor(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(left: Tensor, right: Any) -> Tensor:
        return fn(left, torch.as_tensor(right, dtype=left.dtype, device=left.device))

    return call


CALLS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "abs": torch.abs,
        "add": operator.add,
        "add_n": _add_n,
        "cast": lambda value, dtype: value.to(dtype),
        "clip_by_value": torch.clamp,
        "concat": _concat,
        "cos": torch.cos,
        "cumsum": lambda value, dim=0: torch.cumsum(value, dim=dim),
        "divide": operator.truediv,
        "exp": torch.exp,
        "expand_dims": lambda value, dim: value.unsqueeze(dim),
        "gather": _gather,
        "identity": lambda value: value,
        "log": torch.log,
        "log1p": torch.log1p,
        "matmul": _matmul,
        "maximum": _to_tensor(torch.maximum),
        "minimum": _to_tensor(torch.minimum),
        "multiply": operator.mul,
        "negative": operator.neg,
        "ones_like": torch.ones_like,
        "pow": operator.pow,
        "reduce_max": _reduced(torch.amax),
        "reduce_mean": _reduced(torch.mean),
        "reduce_min": _reduced(torch.amin),
        "reduce_prod": _reduced(_product),
        "reduce_sum": _reduced(torch.sum),
        "reshape": lambda value, shape: value.reshape(list(shape)),
        "sigmoid": torch.sigmoid,
        "sign": torch.sign,
        "sin": torch.sin,
        "slice": _slice,
        "split": _split,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "squeeze": _squeeze,
        "stack": _stack,
        "stop_gradient": torch.detach,
        "subtract": operator.sub,
        "tanh": torch.tanh,
        "tile": lambda value, multiples: value.repeat(list(multiples)),
        "transpose": _transpose,
        "unstack": _unstack,
        "where": torch.where,
        "zeros_like": torch.zeros_like,
        "gelu": torch.nn.functional.gelu,
        "l2_normalize": lambda value, dim=-1: torch.nn.functional.normalize(value, dim=dim),
        "leaky_relu": lambda value, alpha=0.2: torch.nn.functional.leaky_relu(value, alpha),
        "log_sigmoid": torch.nn.functional.logsigmoid,
        "relu": torch.relu,
        "softmax": lambda value, dim=-1: torch.softmax(value, dim=dim),
        "softplus": torch.nn.functional.softplus,
        "swish": torch.nn.functional.silu,
        "builtin.abs": abs,
        "builtin.len": len,
        "builtin.list": list,
        "builtin.max": max,
        "builtin.min": min,
        "builtin.sum": sum,
        "builtin.range": _range,
        "builtin.reversed": lambda values: list(values)[::-1],
        "builtin.tuple": list,
    }
)
