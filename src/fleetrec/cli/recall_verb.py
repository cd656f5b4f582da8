"""The verb that recalls items: its arguments; the work is done in ``cli/recall.py``."""

from typing import Annotated

import typer

from fleetrec.cli.model_verbs import ConfigOption, KeepOption, WithHeader
from fleetrec.cli.pipeline_verbs import Overrides

recall_app = typer.Typer()

UserOption = Annotated[
    list[str] | None,
    typer.Option("--user", help="A column of one user, as name=value; repeat it for more columns."),
]
UsersOption = Annotated[
    str | None, typer.Option("--users", help="A file of users, folder, pattern or URL.")
]
MeasureOption = Annotated[
    bool, typer.Option("--measure", help="Print the recall of the index against brute force.")
]


@recall_app.command()
def recall(  # noqa: PLR0913
    model: Annotated[str, typer.Argument(help="An inference model with items.")],
    *,
    user: UserOption = None,
    users: UsersOption = None,
    topk: Annotated[int, typer.Option("--topk", help="Items per user.")] = 10,
    out: Annotated[
        str | None, typer.Option("--out", help="The folder to write; .parquet, .csv or .jsonl.")
    ] = None,
    keep: KeepOption = None,
    measure: MeasureOption = False,
    with_header: WithHeader = False,
    pipeline_config_path: ConfigOption = None,
    phase: Annotated[
        str | None, typer.Option("--phase", help="The phase, if the job has several.")
    ] = None,
    override: Overrides = None,
) -> None:
    """Recall the items that fit users best, by a model that was exported with --items.

    Example: fleetrec recall exported_dssm --user user=u17 --user city=rome --topk 20
    """
    from fleetrec.cli.recall import RecallRequest, recall_items

    recall_items(
        RecallRequest(
            model=model,
            user=user or (),
            users=users,
            topk=topk,
            out=out,
            keep=keep,
            measure=measure,
            source=pipeline_config_path,
            phase=phase,
            with_header=with_header,
            overrides=override or (),
        )
    )
