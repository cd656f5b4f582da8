"""The inputs of a program, and their rows in tables."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from fleetrec import fleet
from fleetrec.core.errors import ConfigError
from fleetrec.fluid.graph import BATCH_SIZES, Feature, Lookup, Table, Variable
from fleetrec.fluid.initializer import Xavier
from fleetrec.fluid.missing import check_defaults
from fleetrec.fluid.param_attr import AttrLike, to_attr
from fleetrec.fluid.programs import default_main_program

COMBINERS: tuple[tuple[str, Literal["sum", "mean", "sqrtn"]], ...] = (
    ("sum", "sum"),
    ("average", "mean"),
    ("sqrt", "sqrtn"),
)
PICKS = ("max", "first", "last")  # of the rows of a list


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,  # noqa: FBT001, FBT002 (as in Fluid)
    dtype: Literal["int64", "float32"] = "float32",
    lod_level: int = 0,
) -> Variable:
    """Declare an input: numbers (float32) or ids (int64), with lod_level 1 if there may be several.

    Args:
        name: Name of the input.
        shape: Sizes of a sample; with -1 or None before them if not ``append_batch_size``.
        append_batch_size: Whether ``shape`` lacks the size of the batch.
        dtype: float32 or int64.
        lod_level: 1 for a list of ids.
    """
    sizes = [-1 if size is None else size for size in shape]
    if not append_batch_size:
        if not sizes or sizes[0] != -1:
            raise ConfigError(
                [f"variable {name}: expected -1 as the first size, got shape {list(shape)}"]
            )
        sizes = sizes[1:] or [1]
    declared = fleet.data(name=name, shape=sizes, dtype=dtype, lod_level=lod_level)
    if lod_level not in (0, 1):
        raise ConfigError([f"variable {name}: expected lod_level 0 or 1, got {lod_level}"])
    kind = torch.int64 if declared.is_sparse else torch.float32
    examples = tuple(
        torch.empty((size, *declared.shape), dtype=kind, device="meta") for size in BATCH_SIZES
    )
    source = Feature(is_sparse=declared.is_sparse)
    return default_main_program().add(name, source, examples, lod_level=lod_level)


def batch_data(
    name: str,
    shape: Sequence[int],
    dtype: Literal["int64", "float32"] = "float32",
    lod_level: int = 0,
) -> Variable:
    """Declare an input as ``fluid.data`` does: the first size is that of the batch."""
    return data(name, shape, append_batch_size=False, dtype=dtype, lod_level=lod_level)


def embedding(  # noqa: PLR0913 (those of Fluid)
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    is_distributed: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    padding_idx: int | None = None,
    param_attr: AttrLike = None,
    dtype: str = "float32",
) -> Variable:
    """Look up ids in a table of ``size`` [rows, width]; tables of one name are one table.

    Args:
        input: A variable of ids: one, several of a fixed number, or a list.
        size: Number of rows, and their width.
        is_sparse: Rows are always updated alone; see the differences in the documentation.
        is_distributed: With servers, all tables are distributed.
        padding_idx: Not available.
        param_attr: Name and initializer.
        dtype: float32.
    """
    del is_distributed
    where = "fluid.layers.embedding"
    check_defaults(where, {"padding_idx": (padding_idx, None), "dtype": (dtype, "float32")})
    if not isinstance(input, Variable) or not isinstance(input.source, Feature):
        raise ConfigError([f"{where}: expected a variable of fluid.layers.data, got {input!r}"])
    if not input.source.is_sparse:
        raise ConfigError([f"{where}: {input.name} has dtype float32; ids are int64"])
    if len(size) != 2 or min(size) < 1:
        raise ConfigError([f"{where}: expected a size [rows, width], got {list(size)}"])
    attr = to_attr(param_attr)
    if attr is None:
        raise ConfigError([f"{where}: param_attr False: a table has weights"])
    program = input.program
    own = program.unique("embedding")
    initial = attr.initializer or Xavier()
    if initial.seed:
        raise ConfigError([f"{where}: initializers of tables have no seed; set random_seed"])
    rows, dim = size
    table = Table(num_rows=rows, dim=dim, initial=initial, is_sparse=is_sparse)
    name = program.add_table(attr.name or f"{own}.w_0", table)
    num_ids = input.shape[1]
    is_one = bool(input.lod_level) or num_ids == 1
    source = Lookup(
        feature=input,
        table=name,
        combiner="sum" if is_one else "none",
        length=0 if is_one else num_ids,
    )
    shape = (dim,) if is_one else (num_ids, dim)
    return program.add(f"{own}.tmp_0", source, _examples(shape), lod_level=input.lod_level)


def sequence_pool(
    input: Variable,
    pool_type: str,
    is_test: bool = False,  # noqa: FBT001, FBT002 (as in Fluid)
    pad_value: float = 0.0,
) -> Variable:
    """Pool the rows of a list: sum, average, sqrt, max, first or last; zeros for an empty list."""
    del is_test  # pooling is the same in training and inference
    where = "fluid.layers.sequence_pool"
    check_defaults(where, {"pad_value": (pad_value, 0.0)})
    if not isinstance(input, Variable) or not (
        isinstance(input.source, Lookup) and input.lod_level
    ):
        raise ConfigError(
            [f"{where}: expected an embedding of a list of ids (lod_level 1), got {input!r}"]
        )
    kind, combiners = pool_type.lower(), dict(COMBINERS)
    if kind not in combiners and kind not in PICKS:
        known = ", ".join([*combiners, *PICKS])
        raise ConfigError([f"{where}: no pool_type {pool_type!r}; known: {known}"])
    source = Lookup(
        feature=input.source.feature,
        table=input.source.table,
        combiner=combiners.get(kind, "none"),
        pick=kind if kind in PICKS else "",
    )
    program = input.program
    dim = program.tables[input.source.table].dim
    return program.add(f"{program.unique('sequence_pool')}.tmp_0", source, _examples((dim,)))


def _examples(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.empty((size, *shape), device="meta") for size in BATCH_SIZES)
