"""How columns of the data become features, whatever dialect says so."""

from typing import Literal

from pydantic import Field

from fleetrec.config.options import Options

FeatureKind = Literal["id", "raw", "tag", "combo", "sequence"]
ColumnType = Literal["text", "integer", "number", "boolean"]


class ColumnOptions(Options):
    """A column: what its values are, and what stands for a missing one."""

    name: str
    type: ColumnType = "text"
    default: str = ""


class BucketOptions(Options):
    """How values become ids: by hash, by place in a vocabulary, as they are, or by boundaries.

    Without any, ids are the 64 bits of the hash. A vocabulary counts from 0, which also stands for
    values that are not in it; so it does for numbers outside [0, num_buckets). Boundaries part
    numbers; ``equal_width`` buckets lie between the minimum and the maximum of a feature.
    """

    hash_buckets: int | None = Field(default=None, gt=0)
    vocabulary: tuple[str, ...] = ()
    vocabulary_path: str | None = None
    num_buckets: int | None = Field(default=None, gt=0)
    boundaries: tuple[float, ...] = ()
    equal_width: int | None = Field(default=None, gt=1)


class FeatureOptions(Options):
    """One feature, made of one or several columns.

    ``is_dense`` features are numbers, all others ids. The ids of a raw feature that is not dense
    are its buckets; without any they number its values, which are then their weights.
    """

    name: str
    kind: FeatureKind = "id"
    columns: tuple[str, ...] = Field(min_length=1)
    buckets: BucketOptions = BucketOptions()
    is_dense: bool = False
    width: int = Field(default=1, gt=0)
    minimum: float = 0.0
    maximum: float = 0.0
    precision: int | None = None
    separator: str = "|"
    weight_separator: str | None = None
    max_length: int | None = Field(default=None, gt=0)
    join_separator: str | None = None
    column_separators: tuple[str, ...] = ()
