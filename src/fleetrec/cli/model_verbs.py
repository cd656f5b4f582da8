"""The verbs for trained models: their arguments; the work is done in other modules."""

from typing import Annotated

import typer

from fleetrec.cli.pipeline_verbs import Overrides

model_app = typer.Typer()

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--pipeline_config_path",
        "-m",
        "--config",
        help="A pipeline or YAML job; by default that of the checkpoint.",
    ),
]
ModelDir = Annotated[
    str | None, typer.Option("--model_dir", help="Folder of checkpoints: the newest is used.")
]
CheckpointPath = Annotated[
    str | None, typer.Option("--checkpoint_path", help="A checkpoint, or a folder of them.")
]
KeepOption = Annotated[
    str | None,
    typer.Option("--keep", "--reserved_cols", help="Columns to keep: user,item or all."),
]
OutputsOption = Annotated[
    str | None,
    typer.Option("--outputs", "--output_cols", help="Outputs to write; by default all."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch_size", min=1, help="Rows that are predicted at a time.")
]
RowsPerPart = Annotated[
    int, typer.Option("--rows-per-part", min=1, help="Rows of a part file, at least.")
]
WithHeader = Annotated[
    bool, typer.Option("--with_header", help="The first line of the data names its columns.")
]
OutputSeparator = Annotated[
    str | None, typer.Option("--output_sep", help="Separator of cells in a CSV.")
]
FoldTables = Annotated[
    int | None,
    typer.Option(
        "--fold-tables",
        min=0,
        max=2000,  # as MAX_FOLD_MIB, whose import would make --help slow
        metavar="MIB",
        help="Also write folded.onnx, which has the tables in it; their size is limited.",
    ),
]
ItemsOption = Annotated[
    str | None,
    typer.Option("--items", help="Items for recall: a file, folder, pattern or URL."),
]
ItemIdOption = Annotated[
    str | None, typer.Option("--item-id", help="The column of --items that has their ids.")
]
IndexOption = Annotated[
    str | None,
    typer.Option("--index", help="Index of --items: auto, exact, hnsw, ivf or none."),
]
RedisOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--redis_url",
        "--redis_passwd",
        "--redis_threads",
        "--redis_batch_size",
        "--redis_timeout",
        "--redis_expire",
        "--redis_embedding_version",
        "--redis_write_kv",
        hidden=True,
    ),
]
OssOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--oss_path",
        "--oss_endpoint",
        "--oss_ak",
        "--oss_sk",
        "--oss_threads",
        "--oss_timeout",
        "--oss_expire",
        "--oss_write_kv",
        "--oss_embedding_version",
        hidden=True,
    ),
]


@model_app.command()
def predict(  # noqa: PLR0913 (the flags of EasyRec are accepted, too)
    model: Annotated[
        str | None, typer.Argument(help="An inference model, a checkpoint, or a folder of them.")
    ] = None,
    data: Annotated[str | None, typer.Argument(help="A file, folder, pattern or URL.")] = None,
    out: Annotated[
        str | None, typer.Argument(help="The folder to write; .parquet, .csv or .jsonl.")
    ] = None,
    *,
    pipeline_config_path: ConfigOption = None,
    model_dir: ModelDir = None,
    checkpoint_path: CheckpointPath = None,
    saved_model_dir: Annotated[
        str | None, typer.Option("--saved_model_dir", help="An inference model.")
    ] = None,
    input_path: Annotated[str | None, typer.Option("--input_path", help="The data.")] = None,
    output_path: Annotated[
        str | None, typer.Option("--output_path", help="The folder to write.")
    ] = None,
    keep: KeepOption = None,
    outputs: OutputsOption = None,
    output_sep: OutputSeparator = None,
    batch_size: BatchSize = None,
    rows_per_part: RowsPerPart = 100_000,
    with_header: WithHeader = False,
    phase: Annotated[
        str | None, typer.Option("--phase", help="The phase, if the job has several.")
    ] = None,
    override: Overrides = None,
) -> None:
    """Predict every row of some data; a run that was killed continues.

    Example: fleetrec predict inference_dnn/3 clicks.parquet predictions.parquet --keep user,item
    """
    from fleetrec.cli.predict import PredictRequest, predict_data

    predict_data(
        PredictRequest(
            model=model or saved_model_dir or checkpoint_path or model_dir,
            data=data or input_path,
            out=out or output_path,
            has_flags=saved_model_dir is not None,
            source=pipeline_config_path,
            model_dir=model_dir,
            keep=keep,
            outputs=outputs,
            separator=output_sep,
            batch_size=batch_size,
            rows_per_part=rows_per_part,
            with_header=with_header,
            phase=phase,
            overrides=override or (),
        )
    )


@model_app.command()
def export(  # noqa: PLR0913 (the flags of EasyRec are accepted, too)
    checkpoint: Annotated[
        str | None, typer.Argument(help="A checkpoint, or a folder of them.")
    ] = None,
    out: Annotated[str | None, typer.Argument(help="The folder of the model.")] = None,
    *,
    pipeline_config_path: ConfigOption = None,
    export_dir: Annotated[
        str | None,
        typer.Option("--export_dir", help="The model goes to a folder below, named by the time."),
    ] = None,
    model_dir: ModelDir = None,
    checkpoint_path: CheckpointPath = None,
    asset_files: Annotated[
        str | None,
        typer.Option("--asset_files", help="Files to add, by comma; name:path renames one."),
    ] = None,
    clear_export: Annotated[
        bool, typer.Option("--clear_export", help="Delete earlier models of --export_dir.")
    ] = False,
    export_done_file: Annotated[
        str | None,
        typer.Option("--export_done_file", help="A file to write in --export_dir at the end."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="Type of rows: float32, float16 or int8.")
    ] = None,
    fold_tables: FoldTables = None,
    items: ItemsOption = None,
    item_id: ItemIdOption = None,
    index: IndexOption = None,
    with_header: WithHeader = False,
    override: Overrides = None,
    redis: RedisOptions = None,
    oss: OssOptions = None,
) -> None:
    """Make an inference model of a checkpoint; with --items one that recalls items.

    Example: fleetrec export increment_dnn/3 exported_dnn
    """
    from fleetrec.cli.export import ExportRequest, export_model
    from fleetrec.cli.items import items_request

    export_model(
        ExportRequest(
            checkpoint=checkpoint or checkpoint_path or model_dir,
            out=out,
            source=pipeline_config_path,
            export_dir=export_dir,
            model_dir=model_dir,
            asset_files=asset_files,
            clear_export=clear_export,
            done_file=export_done_file,
            rows=rows,
            fold_mib=fold_tables,
            items=items_request(items, item_id, index, with_header=with_header),
            overrides=override or (),
            refused=tuple(n for n, v in (("redis", redis), ("oss", oss)) if v),
        )
    )
