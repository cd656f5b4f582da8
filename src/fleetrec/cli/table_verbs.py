"""The verbs for tables on disk: their arguments; the work is done in other modules."""

from typing import Annotated

import typer

table_app = typer.Typer(help="Inspect tables on disk, and import them.", no_args_is_help=True)

CheckpointArgument = Annotated[
    str,
    typer.Argument(
        help="A checkpoint, e.g. increment_dnn/3 or s3://bucket/dnn/3, or the folder of one table."
    ),
]
TableOption = Annotated[
    str | None, typer.Option("--table", help="phase/table, if the checkpoint holds several.")
]


@table_app.command("stats")
def table_stats(checkpoint: CheckpointArgument) -> None:
    """Print statistics of tables: rows, bytes, quantiles, histograms and the most shown rows.

    Example: fleetrec table stats increment_dnn/3
    """
    from fleetrec.cli.table import show_stats

    show_stats(checkpoint)


@table_app.command("get")
def table_get(
    checkpoint: CheckpointArgument,
    ids: Annotated[list[int], typer.Argument(help="Ids to look up.")],
    *,
    table: TableOption = None,
) -> None:
    """Print the rows of some ids.

    Example: fleetrec table get increment_dnn/3 966064 504021
    """
    from fleetrec.cli.table import show_rows

    show_rows(checkpoint, ids, table=table)


@table_app.command("dump")
def table_dump(
    checkpoint: CheckpointArgument,
    target: Annotated[str, typer.Argument(help="The Parquet file to write.")],
    *,
    table: TableOption = None,
) -> None:
    """Write id, vector, show, click and last_seen of every row to a Parquet file.

    Example: fleetrec table dump increment_dnn/3 rows.parquet
    """
    from fleetrec.cli.table import dump

    dump(checkpoint, target, table=table)


@table_app.command("import")
def table_import(
    source: Annotated[str, typer.Argument(help="A Parquet or Arrow file with id and vector.")],
    target: Annotated[str, typer.Argument(help="The checkpoint to create.")],
    *,
    table: Annotated[str, typer.Option("--table", help="Name of the table in the model.")],
) -> None:
    """Create a checkpoint of one table, to start a run from (init_pretraining_model_path).

    Example: fleetrec table import rows.parquet imported --table SparseFeatFactors
    """
    from fleetrec.cli.table import import_file

    import_file(source, target, table=table)


@table_app.command("diff")
def table_diff(
    before: CheckpointArgument,
    after: Annotated[str, typer.Argument(help="Another checkpoint or table folder.")],
) -> None:
    """Print which rows were added, removed and changed between two checkpoints.

    Example: fleetrec table diff increment_dnn/0 increment_dnn/3
    """
    from fleetrec.cli.table import show_difference

    show_difference(before, after)
