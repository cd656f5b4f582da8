"""The verbs for pipelines: what may be typed; the work is done elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

pipeline_app = typer.Typer()
checkpoint_app = typer.Typer(help="Look into checkpoints.", no_args_is_help=True)

PipelinePath = Annotated[
    Path | None, typer.Option("--pipeline_config_path", help="The pipeline, a .config file.")
]
ModelDir = Annotated[
    str | None, typer.Option("--model_dir", help="Take this folder instead of the pipeline's.")
]
EvalPath = Annotated[
    list[str] | None,
    typer.Option("--eval_input_path", help="Data to judge on, instead. Repeatable."),
]


@pipeline_app.command(
    "train-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def train_eval(  # noqa: PLR0913
    context: typer.Context,
    *,
    pipeline_config_path: PipelinePath = None,
    continue_train: Annotated[
        bool, typer.Option("--continue_train", help="Go on from the newest checkpoint.")
    ] = False,
    model_dir: ModelDir = None,
    train_input_path: Annotated[
        list[str] | None,
        typer.Option("--train_input_path", help="Data to learn from, instead. Repeatable."),
    ] = None,
    eval_input_path: EvalPath = None,
    fine_tune_checkpoint: Annotated[
        str | None,
        typer.Option("--fine_tune_checkpoint", help="Weights to begin with, or a folder of them."),
    ] = None,
    edit_config_json: Annotated[
        str | None, typer.Option("--edit_config_json", help='E.g. {"data_config.batch_size": 64}.')
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of first weights and of shuffling.")] = 0,
    num_workers: Annotated[
        int | None,
        typer.Option("--num_workers", min=1, help="Processes that train, on this machine."),
    ] = None,
    num_servers: Annotated[
        int | None,
        typer.Option("--num_servers", min=1, help="Parameter servers, if train_distribute needs."),
    ] = None,
) -> None:
    """Train and judge what a pipeline describes; --train_config.num_steps=100 changes a field.

    Example: fleetrec train-eval --pipeline_config_path deepfm.config --train_config.num_steps=100
    """
    from fleetrec.cli.train_eval import Request, train_and_evaluate

    train_and_evaluate(
        Request(
            path=pipeline_config_path,
            model_dir=model_dir,
            train_input_path=train_input_path,
            eval_input_path=eval_input_path,
            fine_tune_checkpoint=fine_tune_checkpoint,
            edit_config_json=edit_config_json,
            arguments=context.args,
            seed=seed,
            num_workers=num_workers,
            num_servers=num_servers,
        ),
        continue_train=continue_train,
    )


@pipeline_app.command("eval")
def evaluate(
    *,
    pipeline_config_path: PipelinePath = None,
    model_dir: ModelDir = None,
    checkpoint_path: Annotated[
        str | None,
        typer.Option("--checkpoint_path", help="A checkpoint, or a folder of them."),
    ] = None,
    eval_input_path: EvalPath = None,
    eval_result_path: Annotated[
        str, typer.Option("--eval_result_path", help="File in the model folder.")
    ] = "eval_result.txt",
) -> None:
    """Judge a checkpoint of a pipeline on its evaluation data.

    Example: fleetrec eval --pipeline_config_path deepfm.config
    """
    from fleetrec.cli.train_eval import Request, evaluate_checkpoint

    evaluate_checkpoint(
        Request(path=pipeline_config_path, model_dir=model_dir, eval_input_path=eval_input_path),
        checkpoint=checkpoint_path,
        result_name=eval_result_path,
    )


@checkpoint_app.callback()
def checkpoint() -> None:
    """Look into checkpoints."""


@checkpoint_app.command("vars")
def checkpoint_vars(
    path: Annotated[str, typer.Argument(help="A checkpoint, or a folder of model.ckpt-<step>.")],
) -> None:
    """Print the variables of a checkpoint and their shapes.

    Example: fleetrec checkpoint vars experiments/model.ckpt-1000
    """
    from fleetrec.cli.checkpoint import show_variables

    show_variables(path)
