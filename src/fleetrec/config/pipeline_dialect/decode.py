"""From pipeline text to a checked job; all problems are reported at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from fleetrec.config.document import Document, Location
from fleetrec.config.groups import GroupModelOptions
from fleetrec.config.job import (
    EvaluationOptions,
    Job,
    PhaseOptions,
    RunOptions,
    UpdateOptions,
)
from fleetrec.config.pipeline_dialect.check import (
    check_data,
    check_loss,
    check_training,
    training_notices,
)
from fleetrec.config.pipeline_dialect.distribution import (
    check_distribution,
    check_update,
    distribute,
    distribution_notices,
)
from fleetrec.config.pipeline_dialect.edit import Edit, apply_edits, set_field
from fleetrec.config.pipeline_dialect.message import Message
from fleetrec.config.pipeline_dialect.model import CLASSES, TaskTower
from fleetrec.config.pipeline_dialect.pipeline import Pipeline, with_classes
from fleetrec.config.pipeline_dialect.plain import Plainer
from fleetrec.config.pipeline_dialect.saving import (
    resume_options,
    training_rules,
    warm_start_options,
)
from fleetrec.config.pipeline_dialect.streams import online_options, without_secrets
from fleetrec.config.pipeline_dialect.text import Tree, read_tree
from fleetrec.config.pipeline_dialect.translate import DataTranslator, input_path, loss_name
from fleetrec.config.pipeline_dialect.translate_optimizer import optimizer_options
from fleetrec.config.pipeline_dialect.write import to_text
from fleetrec.config.problems import Problems, hint
from fleetrec.config.processes import Processes
from fleetrec.config.rules import InferenceOptions
from fleetrec.core.errors import ConfigError

PHASE = "model"  # the phase name of a pipeline's weights in a checkpoint
ONE_PROCESS = Processes()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelClass:
    """A model class: its file, its options, and its message in ``model_config``."""

    name: str
    path: Path
    options: type[GroupModelOptions]
    field: str
    message: type[Message]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes from the command line; edits override flags."""

    model_dir: str | None = None
    train_input_path: str | None = None
    eval_input_path: str | None = None
    fine_tune_checkpoint: str | None = None
    edits: Sequence[Edit] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodedPipeline:
    """A job, and its pipeline text."""

    job: Job
    text: str
    model_dir: str


def decode_pipeline(
    path: Path,
    *,
    classes: Mapping[str, ModelClass],
    changes: Changes,
    kind: Literal["train", "infer"],
    seed: int = 0,
    processes: Processes = ONE_PROCESS,
) -> DecodedPipeline:
    """Read and check a pipeline, or raise ConfigError with all problems."""
    if path.suffix == ".json":
        raise ConfigError([f"{path}: pipelines in JSON are not supported yet; expected .config"])
    tree = read_tree(path)
    schema = with_classes({one.field: one.message for one in classes.values()})
    _apply(changes, tree, schema)
    document = Document(path=path, data={}, lines={})
    problems = Problems(document)
    plainer = Plainer(document, problems)
    document.data.update(plainer.message(tree, schema, ()))
    try:
        pipeline = schema.model_validate(document.data)
    except ValidationError as error:
        problems.note_validation(error, at=(), want=schema)
        pipeline = None
    problems.check()
    assert pipeline is not None
    translator = _Translator(pipeline, problems, classes, processes)
    run = translator.run(kind, seed=seed)
    return DecodedPipeline(
        job=Job(
            source=path,
            workspace=path.parent.absolute(),
            runs=(run,),
            notices=(*plainer.notices, *translator.notices),
        ),
        text=without_secrets(to_text(tree, schema), pipeline),
        model_dir=pipeline.model_dir,
    )


def _apply(changes: Changes, tree: Tree, schema: type[Message]) -> None:
    if changes.model_dir is not None:
        set_field(tree, "model_dir", changes.model_dir, origin="--model_dir")
    for part in ("train", "eval"):
        path = getattr(changes, f"{part}_input_path")
        if path is not None:
            names = [f"{part}_input_path", f"parquet_{part}_input"]
            given = [name for name in names if name in tree] or names[:1]
            set_field(tree, given[0], path, origin=f"--{part}_input_path")
    edits = list(changes.edits)
    if changes.fine_tune_checkpoint is not None:
        edits.insert(
            0,
            Edit(
                path="train_config.fine_tune_checkpoint",
                value=changes.fine_tune_checkpoint,
                origin="--fine_tune_checkpoint",
            ),
        )
    apply_edits(tree, edits, schema)


class _Translator:
    """Translates a valid pipeline into a run."""

    def __init__(
        self,
        pipeline: Pipeline,
        problems: Problems,
        classes: Mapping[str, ModelClass],
        processes: Processes,
    ) -> None:
        self._pipeline = pipeline
        self._problems = problems
        self._classes = classes
        self._processes = processes
        self.notices: list[str] = []

    def run(self, kind: Literal["train", "infer"], *, seed: int) -> RunOptions:
        """Return the run, or raise ConfigError with all problems."""
        pipeline = self._pipeline
        model_class = self._model_class()
        data = DataTranslator(pipeline, self._problems)
        groups = data.groups()
        metrics = data.metrics(pipeline.eval_config.metrics_set, ("eval_config", "metrics_set"))
        towers = self._towers(model_class)
        of_towers = [
            one
            for number, tower in enumerate(towers)
            for one in data.metrics(tower.metrics_set, self._at_tower(model_class, number))
        ]
        features = data.features([*metrics, *of_towers])
        check_data(pipeline, self._problems, is_training=kind == "train")
        check_training(pipeline, self._problems)
        check_distribution(pipeline.train_config, self._problems)
        if kind == "train":
            check_update(pipeline.train_config, self._processes, self._problems)
        self.notices += training_notices(pipeline, self._problems)
        self.notices += distribution_notices(pipeline.train_config, self._processes, self._problems)
        self._problems.check()
        assert model_class is not None
        model = model_class.options.model_validate(
            {
                "groups": groups,
                "labels": pipeline.data_config.label_fields,
                "loss": loss_name(pipeline.model.loss_type),
                "num_class": pipeline.model.num_class,
                "metrics": metrics,
                "embedding_regularization": pipeline.model.embedding_regularization,
                model_class.field: getattr(pipeline.model, model_class.field),
            }
        )
        part: Literal["train", "eval"] = "train" if kind == "train" else "eval"
        path, _ = input_path(pipeline, part)
        phase = PhaseOptions(
            name=PHASE,
            model_path=model_class.path,
            model=model,
            optimizer=None,
            update=self._update(),
            dataset=data.dataset(part, path, features, is_training=kind == "train"),
        )
        eval_path, _ = input_path(pipeline, "eval")
        evaluation = None
        if eval_path:
            evaluation = EvaluationOptions(
                dataset=data.dataset("eval", eval_path, features, is_training=False),
                num_samples=pipeline.eval_config.num_examples or None,
            )
        return self._run(kind, phase, evaluation, seed=seed)

    def _run(
        self,
        kind: Literal["train", "infer"],
        phase: PhaseOptions,
        evaluation: EvaluationOptions | None,
        *,
        seed: int,
    ) -> RunOptions:
        train = self._pipeline.train_config
        export = self._pipeline.export_config
        distribution = distribute(train, self._processes)
        online = online_options(self._pipeline) if kind == "train" else None
        return RunOptions(
            name="train_eval" if kind == "train" else "eval",
            kind=kind,
            engine=distribution.engine,
            device=distribution.device,
            cluster=distribution.cluster,
            phases=(phase,),
            num_epochs=(online is None and self._pipeline.data_config.num_epochs) or None,
            num_steps=distribution.num_steps,
            seed=seed,
            rules=training_rules(self._pipeline) if kind == "train" else (),
            inference=InferenceOptions(fold_mib=export.fold_tables, assets=export.asset_files),
            resume=resume_options(self._pipeline),
            warm_start=warm_start_options(train),
            print_interval=train.log_step_count_steps,
            log_style="steps",
            evaluation=evaluation,
            summary_interval=train.save_summary_steps,
            online=online,
        )

    def _update(self) -> UpdateOptions:
        train = self._pipeline.train_config
        multiplier = train.optimizer_config[0].embedding_learning_rate_multiplier
        return UpdateOptions(
            optimizers=tuple(optimizer_options(one) for one in train.optimizer_config),
            clip_norm=train.gradient_clipping_by_norm,
            embedding_gradient_scale=1.0 if multiplier is None else multiplier,
            frozen=train.freeze_gradient,
        )

    def _model_class(self) -> ModelClass | None:
        name = self._pipeline.model.model_class
        at: Location = ("model_config", "model_class")
        if name in self._classes:
            found = self._classes[name]
            for other in self._classes.values():
                given = getattr(self._pipeline.model, other.field) is not None
                if given and other.field != found.field:
                    text = f"is the message of {other.name}, but model_class is {name}"
                    self._problems.note(("model_config", other.field), text)
            return found
        if name in dict(CLASSES):
            listed = ", ".join(self._classes)
            text = f"{name} is known, but not supported yet; supported: {listed}"
            self._problems.note(at, text)
        else:
            self._problems.note(at, f"no model is called {name!r}{hint(name, self._classes)}")
        return None

    def _towers(self, model_class: ModelClass | None) -> tuple[TaskTower, ...]:
        """Return the towers of a model with several tasks."""
        if model_class is None:
            return ()
        message = getattr(self._pipeline.model, model_class.field)
        towers: tuple[TaskTower, ...] = getattr(message, "task_towers", ())
        labels = self._pipeline.data_config.label_fields
        for number, tower in enumerate(towers):
            at = self._at_tower(model_class, number)
            check_loss(tower.loss_type, (*at, "loss_type"), self._problems)
            if tower.label_name and tower.label_name not in labels:
                text = f"no label is called {tower.label_name!r}{hint(tower.label_name, labels)}"
                self._problems.note((*at, "label_name"), text)
        return towers

    def _at_tower(self, model_class: ModelClass | None, number: int) -> Location:
        field = "" if model_class is None else model_class.field
        return ("model_config", field, "task_towers", number)
