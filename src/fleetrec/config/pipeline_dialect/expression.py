"""Expressions in pipelines, such as ``lambda x: tf.concat(x, axis=1)``: parsed, not executed.

They are a small part of Python: one argument, numbers, lists, indexing, slices, arithmetic, and
calls of the functions in ``FUNCTIONS``. Everything else is refused when the pipeline is read.
"""

import ast

from fleetrec.config.problems import hint

FUNCTIONS = (
    "abs",
    "add",
    "add_n",
    "cast",
    "clip_by_value",
    "concat",
    "cos",
    "cumsum",
    "divide",
    "exp",
    "expand_dims",
    "gather",
    "identity",
    "log",
    "log1p",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "ones_like",
    "pow",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reshape",
    "sigmoid",
    "sign",
    "sin",
    "slice",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "tanh",
    "tile",
    "transpose",
    "unstack",
    "where",
    "zeros_like",
    "gelu",
    "l2_normalize",
    "leaky_relu",
    "log_sigmoid",
    "relu",
    "softmax",
    "softplus",
    "swish",
)
PREFIXES = ("tf", "tf.math", "tf.nn", "tf.linalg", "tf.sparse")
TYPES = ("tf.float32", "tf.float64", "tf.int32", "tf.int64", "tf.bool")
BUILTINS = ("abs", "len", "list", "max", "min", "sum", "range", "reversed", "tuple")
_NODES = (
    ast.List,
    ast.Tuple,
    ast.Subscript,
    ast.Slice,
    ast.UnaryOp,
    ast.USub,
    ast.UAdd,
    ast.Not,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.MatMult,
    ast.Compare,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.Eq,
    ast.NotEq,
    ast.IfExp,
    ast.Starred,
    ast.keyword,
    ast.Load,
    ast.Store,
    ast.expr_context,
)
MAX_TEXT = 2000
MAX_EXPONENT = 16


def parse_lambda(text: str, *, is_numbered: bool = False) -> ast.Lambda:
    """Return the tree of ``lambda x: ...``, or raise ValueError that says what is not allowed.

    With ``is_numbered`` a second argument is allowed, the number of a copy.
    """
    tree = _parse(text)
    if not isinstance(tree, ast.Lambda):
        raise ValueError("expected a function such as lambda x: x[0]")
    arguments = tree.args
    others = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.defaults)
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if len(names) not in (1, 1 + is_numbered) or any(other is not None for other in others):
        raise ValueError("expected a function of one argument, as in lambda x: x[0]")
    _check(tree.body, set(names))
    return tree


def parse_slice(text: str, *, is_numbered: bool = False) -> ast.Lambda:
    """Return the tree of a function that selects ``[1]`` or ``[:, 0]`` of its argument.

    With ``is_numbered`` the number of a copy is called ``i``.
    """
    if not (text.strip().startswith("[") and text.strip().endswith("]")):
        raise ValueError("expected an index or a slice in brackets, as in [1]")
    arguments = "x, i" if is_numbered else "x"
    return parse_lambda(f"lambda {arguments}: x{text.strip()}", is_numbered=is_numbered)


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_TEXT:
        raise ValueError(f"expected at most {MAX_TEXT} characters, got {len(text)}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot be parsed: {getattr(error, 'msg', error)}") from error


def _check(node: ast.AST, names: set[str]) -> None:
    """Refuse every node that is not on the list."""
    if isinstance(node, ast.Call):
        _check_call(node, names)
    elif isinstance(node, ast.ListComp):
        _check_comprehension(node, names)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        _check_power(node, names)
    elif isinstance(node, ast.Name | ast.Attribute | ast.Constant):
        _check_leaf(node, names)
    elif isinstance(node, _NODES):
        for child in ast.iter_child_nodes(node):
            _check(child, names)
    else:
        raise ValueError(f"{ast.unparse(node)} is not supported here")


def _check_leaf(node: ast.Name | ast.Attribute | ast.Constant, names: set[str]) -> None:
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"unknown name {node.id!r}")
        return
    is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None)
    if not is_number and ast.unparse(node) not in TYPES:
        raise ValueError(f"{ast.unparse(node)} is not supported here")


def _check_call(node: ast.Call, names: set[str]) -> None:
    function_name(node)
    for child in (*node.args, *(word.value for word in node.keywords)):
        _check(child, names)
    if any(word.arg is None for word in node.keywords):
        raise ValueError("** is not supported here")


def _check_power(node: ast.BinOp, names: set[str]) -> None:
    """Refuse exponents that are no small numbers: such numbers take for ever to compute."""
    _check(node.left, names)
    exponent: ast.expr = node.right
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    if not isinstance(exponent, ast.Constant) or not isinstance(exponent.value, int | float):
        raise ValueError(f"{ast.unparse(node)}: expected a number as exponent")
    if exponent.value > MAX_EXPONENT or isinstance(node.left, ast.BinOp | ast.Constant):
        raise ValueError(f"{ast.unparse(node)}: expected a tensor to at most {MAX_EXPONENT}")


def _check_comprehension(node: ast.ListComp, names: set[str]) -> None:
    known = set(names)
    for part in node.generators:
        _check(part.iter, known)
        if part.is_async or not isinstance(part.target, ast.Name):
            raise ValueError(f"{ast.unparse(node)}: expected a plain name after for")
        known.add(part.target.id)
        for condition in part.ifs:
            _check(condition, known)
    _check(node.elt, known)


def function_name(node: ast.Call) -> str:
    """Return the name of a function that may be called, without its module."""
    text = ast.unparse(node.func)
    module, _, name = text.rpartition(".")
    if not module and name in BUILTINS:
        return f"builtin.{name}"
    if module not in PREFIXES:
        raise ValueError(f"{text}: expected a function of tf")
    if name not in FUNCTIONS:
        raise ValueError(f"{text} is not supported here{hint(name, FUNCTIONS)}")
    return name
