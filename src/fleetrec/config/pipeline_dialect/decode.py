"""From pipeline text to a checked job; all problems are reported at once."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from fleetrec.config.document import Document, Location
from fleetrec.config.groups import (
    AttentionOptions,
    GroupModelOptions,
    GroupOptions,
    MetricOptions,
)
from fleetrec.config.job import (
    EvaluationOptions,
    Job,
    PhaseOptions,
    RunOptions,
    UpdateOptions,
)
from fleetrec.config.pipeline_dialect.check import (
    check_data,
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
from fleetrec.config.pipeline_dialect.fg import expand_fg
from fleetrec.config.pipeline_dialect.inputs import input_path
from fleetrec.config.pipeline_dialect.json_text import read_json_tree
from fleetrec.config.pipeline_dialect.losses import (
    GROUPED,
    KINDS,
    distillation_options,
    grouping_features,
    loss_options,
)
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
from fleetrec.config.pipeline_dialect.translate import DataTranslator
from fleetrec.config.pipeline_dialect.translate_model import meanings, variational_options
from fleetrec.config.pipeline_dialect.translate_optimizer import optimizer_options
from fleetrec.config.pipeline_dialect.write import to_text
from fleetrec.config.problems import Problems, hint
from fleetrec.config.processes import Processes
from fleetrec.config.rules import InferenceOptions

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
    tree = read_json_tree(path) if path.suffix == ".json" else read_tree(path)
    schema = with_classes({one.field: one.message for one in classes.values()})
    _apply(changes, tree, schema)
    expand_fg(tree)
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
            fields=meanings(plainer.fields, translator.notices),
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
        attention_groups = data.attention_groups()
        metrics = self._metrics(data)
        towers = self._towers(model_class, data)
        of_towers = [
            one
            for number, tower in enumerate(towers)
            for one in data.metrics(tower.metrics_set, self._at_tower(model_class, number))
        ]
        losses = [loss_options(one) for one in pipeline.model.losses]
        session = self._session(model_class)
        grouped = [metric.feature for metric in (*metrics, *of_towers)]
        grouped += grouping_features(losses, towers, pipeline.model.kd)
        grouped += [f"{GROUPED}{session}"] if session else []
        features = data.features(grouped, session=session)
        self._check_label_name()
        data.check_functions()
        check_data(pipeline, self._problems, is_training=kind == "train")
        check_training(pipeline, self._problems)
        check_distribution(pipeline.train_config, self._problems)
        if kind == "train":
            check_update(pipeline.train_config, self._processes, self._problems)
        self.notices += training_notices(pipeline, self._problems)
        self.notices += distribution_notices(pipeline.train_config, self._processes, self._problems)
        self._problems.check()
        assert model_class is not None
        model = self._model_options(model_class, data, groups, attention_groups, metrics)
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

    def _model_options(
        self,
        model_class: ModelClass,
        data: DataTranslator,
        groups: Sequence[GroupOptions],
        attention_groups: Sequence[AttentionOptions],
        metrics: Sequence[MetricOptions],
    ) -> GroupModelOptions:
        pipeline = self._pipeline
        losses = [loss_options(one) for one in pipeline.model.losses]
        return model_class.options.model_validate(
            {
                "groups": groups,
                "attention_groups": attention_groups,
                "labels": self._chosen_first(data.label_names(), self._session(model_class)),
                "loss": KINDS[pipeline.model.loss_type],
                "losses": losses,
                "loss_weights": pipeline.model.loss_weight_strategy.lower(),
                "distillation": [distillation_options(one) for one in pipeline.model.kd],
                "variational_dropout": variational_options(pipeline.model.variational_dropout),
                "num_class": pipeline.model.num_class,
                "has_negatives": pipeline.data_config.sampler is not None,
                "metrics": metrics,
                "metrics_in_training": pipeline.eval_config.eval_online,
                "embedding_regularization": pipeline.model.embedding_regularization,
                "backbone": pipeline.model.backbone,
                model_class.field: getattr(pipeline.model, model_class.field),
            }
        )

    def _metrics(self, data: DataTranslator) -> tuple[MetricOptions, ...]:
        """Return the metrics of a model with one task; some mean nothing for a softmax of items."""
        at: Location = ("eval_config", "metrics_set")
        model = self._pipeline.model
        found = data.metrics(self._pipeline.eval_config.metrics_set, at)
        if model.loss_type != "SOFTMAX_CROSS_ENTROPY" or model.num_class > 1:
            return found
        kept = tuple(metric for metric in found if metric.name == "recall_at_topk")
        for name in dict.fromkeys(one.name for one in found if one not in kept):
            text = f"{name} has no meaning for SOFTMAX_CROSS_ENTROPY over items, as in EasyRec"
            self.notices.append(self._problems.spell(at, text))
        return kept

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

    def _chosen_first(self, labels: Sequence[str], session: str) -> list[str]:
        """Return the labels without a session; the one that the model chooses is the first."""
        known = [label for label in labels if label != session]
        return sorted(known, key=lambda label: label != self._pipeline.model.label_name)

    def _session(self, model_class: ModelClass | None) -> str:
        """Return the label field that a model of vectors compares samples within."""
        message = None if model_class is None else getattr(self._pipeline.model, model_class.field)
        return str(getattr(message, "session_column", ""))

    def _check_label_name(self) -> None:
        name, labels = self._pipeline.model.label_name, self._pipeline.data_config.label_fields
        if name and name not in labels:
            text = f"no label is called {name!r}{hint(name, labels)}"
            self._problems.note(("model_config", "label_name"), text)

    def _towers(
        self, model_class: ModelClass | None, data: DataTranslator
    ) -> tuple[TaskTower, ...]:
        """Return the towers of a model with several tasks."""
        if model_class is None:
            return ()
        message = getattr(self._pipeline.model, model_class.field)
        towers: tuple[TaskTower, ...] = getattr(message, "task_towers", ())
        labels = data.label_names()
        for number, tower in enumerate(towers):
            at = self._at_tower(model_class, number)
            if tower.label_name and tower.label_name not in labels:
                text = f"no label is called {tower.label_name!r}{hint(tower.label_name, labels)}"
                self._problems.note((*at, "label_name"), text)
        return towers

    def _at_tower(self, model_class: ModelClass | None, number: int) -> Location:
        field = "" if model_class is None else model_class.field
        return ("model_config", field, "task_towers", number)
