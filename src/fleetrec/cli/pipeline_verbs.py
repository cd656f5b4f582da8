"""The verbs for pipelines: their arguments; the work is done in other modules."""

from typing import Annotated

import typer

pipeline_app = typer.Typer()
checkpoint_app = typer.Typer(help="Inspect checkpoints.", no_args_is_help=True)

JobOption = Annotated[
    str | None,
    typer.Option("--pipeline_config_path", "-m", "--model", help="A pipeline, or a YAML job."),
]
ModelDir = Annotated[
    str | None, typer.Option("--model_dir", help="Folder of the model, instead of the pipeline's.")
]
EvalPath = Annotated[
    list[str] | None,
    typer.Option("--eval_input_path", help="Other evaluation data. Repeatable."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("-o", "--override", help="Change a key, as for run. Repeatable."),
]
# Given by a launcher to the processes that it starts for one of several runners.
OnlyOption = Annotated[str | None, typer.Option("--only", hidden=True)]


@pipeline_app.command(
    "train-eval", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def train_eval(  # noqa: PLR0913
    context: typer.Context,
    *,
    pipeline_config_path: JobOption = None,
    continue_train: Annotated[
        bool,
        typer.Option("--continue_train", "--resume", help="Resume from the newest checkpoint."),
    ] = False,
    model_dir: ModelDir = None,
    train_input_path: Annotated[
        list[str] | None,
        typer.Option("--train_input_path", help="Other training data. Repeatable."),
    ] = None,
    eval_input_path: EvalPath = None,
    fine_tune_checkpoint: Annotated[
        str | None,
        typer.Option("--fine_tune_checkpoint", help="Checkpoint, or a folder of them."),
    ] = None,
    edit_config_json: Annotated[
        str | None, typer.Option("--edit_config_json", help='E.g. {"data_config.batch_size": 64}.')
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of weights and shuffling; by default 0.")
    ] = None,
    num_workers: Annotated[
        int | None,
        typer.Option("--num_workers", min=1, help="Number of workers on this machine."),
    ] = None,
    num_servers: Annotated[
        int | None,
        typer.Option("--num_servers", min=1, help="Number of parameter servers."),
    ] = None,
    override: Overrides = None,
    only: OnlyOption = None,
) -> None:
    """Train and evaluate a pipeline; --train_config.num_steps=100 changes a field.

    Example: fleetrec train-eval --pipeline_config_path deepfm.config --train_config.num_steps=100
    """
    from fleetrec.cli.train_eval import TrainEvalRequest, train_and_evaluate

    train_and_evaluate(
        TrainEvalRequest(
            source=pipeline_config_path,
            model_dir=model_dir,
            train_input_path=train_input_path,
            eval_input_path=eval_input_path,
            fine_tune_checkpoint=fine_tune_checkpoint,
            edit_config_json=edit_config_json,
            arguments=context.args,
            seed=seed,
            num_workers=num_workers,
            num_servers=num_servers,
            overrides=override or (),
            only=only,
        ),
        continue_train=continue_train,
    )


@pipeline_app.command("eval")
def evaluate(
    *,
    pipeline_config_path: JobOption = None,
    model_dir: ModelDir = None,
    checkpoint_path: Annotated[
        str | None,
        typer.Option("--checkpoint_path", help="A checkpoint, or a folder of them."),
    ] = None,
    eval_input_path: EvalPath = None,
    eval_result_path: Annotated[
        str, typer.Option("--eval_result_path", help="File in the model folder, or run folder.")
    ] = "eval_result.txt",
    override: Overrides = None,
) -> None:
    """Evaluate a checkpoint: on the evaluation data of a pipeline, or by the infer runners of YAML.

    Example: fleetrec eval --pipeline_config_path deepfm.config
    """
    from fleetrec.cli.eval import EvalRequest, evaluate_checkpoint

    evaluate_checkpoint(
        EvalRequest(
            source=pipeline_config_path,
            model_dir=model_dir,
            eval_input_path=eval_input_path,
            checkpoint=checkpoint_path,
            result_name=eval_result_path,
            overrides=override or (),
        )
    )


@checkpoint_app.callback()
def checkpoint() -> None:
    """Inspect checkpoints."""


@checkpoint_app.command("vars")
def checkpoint_vars(
    path: Annotated[str, typer.Argument(help="A checkpoint, or a folder of model.ckpt-<step>.")],
) -> None:
    """Print the variables of a checkpoint and their shapes.

    Example: fleetrec checkpoint vars experiments/model.ckpt-1000
    """
    from fleetrec.cli.checkpoint import show_variables

    show_variables(path)
