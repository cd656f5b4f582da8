"""How columns of the data become features, in both dialects."""

from typing import Annotated, Literal

from pydantic import Field

from fleetrec.config.options import Options

FeatureKind = Literal[
    "id",
    "raw",
    "tag",
    "combo",
    "lookup",
    "expr",
    "sequence",
    "step_counts",
    "number_sequence",
]
ColumnType = Literal["text", "integer", "number", "boolean"]


class ColumnOptions(Options):
    """A column: the type of its values, and the default for a missing one.

    ``function`` of the Python file ``function_path`` changes its values first.
    """

    name: str
    type: ColumnType = "text"
    default: str = ""
    function: str = ""
    function_path: str = ""


class BucketOptions(Options):
    """How values become ids: by hash, by index in a vocabulary, as they are, or by boundaries.

    Without any option an id is the 64-bit hash of the text. A vocabulary counts from 0, which is
    also the id of values that are not in it and of numbers outside [0, num_buckets), unless the
    rule ``wraps``, which takes them modulo num_buckets. Boundaries split numbers; ``equal_width``
    buckets lie between the minimum and the maximum of a feature.
    """

    hash_buckets: int | None = Field(default=None, gt=0)
    vocabulary: tuple[str, ...] = ()
    vocabulary_path: str | None = None
    num_buckets: int | None = Field(default=None, gt=0)
    wraps: bool = False
    boundaries: tuple[float, ...] = ()
    equal_width: int | None = Field(default=None, gt=1)


class FeatureOptions(Options):
    """One feature, made of one or several columns.

    ``is_dense`` features are numbers, all others ids. The ids of a raw feature that is not dense
    are its buckets; without any they number its values, which are then their weights. The steps of
    a sequence may hold several values each, separated by ``step_separator``; ``width`` of a dense
    feature about a sequence is ``max_length`` steps times ``step_width`` numbers, and more.
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
    step_separator: str | None = None
    expression: str = ""
    step_width: int = Field(default=1, gt=0)
    join_separator: str | None = None
    column_separators: tuple[str, ...] = ()


class IdRule(Options):
    """How the values of an id list become ids.

    By index in a vocabulary (a list, or a file with one value per line; from 1 on, 0 is for all
    others), else by hash where values are text, and then modulo ``buckets`` where that is given.
    """

    vocabulary: tuple[str, ...] = ()
    vocabulary_path: str | None = None
    buckets: int | None = Field(default=None, gt=0)


class IdListOptions(Options):
    """The values of the column of the same name: integers are ids, text is hashed, then ``rule``.

    A text cell holds several values if there is a ``list_separator``, and each may be followed by
    ``weight_separator`` and a weight. Text is hashed with ``prefix`` in front. Rows without a
    value, or all rows if the data has no such column, get the id ``padding``.
    """

    kind: Literal["id_list"] = "id_list"
    name: str
    rule: IdRule = IdRule()
    list_separator: str | None = None
    weight_separator: str | None = None
    prefix: str = ""
    padding: int = 0


class DenseOptions(Options):
    """Numbers of a fixed shape, from the column of the same name or from ``x1``, ``x2``, ...

    Text is refused unless there is a ``list_separator`` (which may be empty: one number per cell).
    Rows without a value are filled with ``padding``.
    """

    kind: Literal["dense"] = "dense"
    name: str
    shape: tuple[int, ...] = (1,)
    list_separator: str | None = None
    padding: int = 0


AnyFeatureOptions = Annotated[
    FeatureOptions | IdListOptions | DenseOptions, Field(discriminator="kind")
]


class FeatureSetOptions(Options):
    """All features of a data set or an inference model; ``owner`` is named in messages."""

    owner: str = ""
    columns: tuple[ColumnOptions, ...] = ()
    features: tuple[AnyFeatureOptions, ...] = ()
