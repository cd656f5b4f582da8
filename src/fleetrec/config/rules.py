"""Rules of a training run: when it saves, evaluates and stops; where it resumes from."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fleetrec.config.options import Options, Url

RuleWhen = Literal[
    "begin",
    "passes",
    "day_passes",
    "days",
    "steps",
    "pass_steps",
    "seconds",
    "event_minutes",
    "stop",
    "end",
]
MAX_FOLD_MIB = 2000  # a file of ONNX is below 2 GiB
RowType = Literal["float32", "float16", "int8"]
RuleAction = Literal[
    "checkpoint", "delta", "serving", "inference", "evaluate", "early_stop", "end_run"
]


class Rule(Options):
    """An action of a training run, and when it is due.

    ``when`` is one of

    - ``begin``: before the first step of a new run;
    - ``passes``, ``steps``: after every n-th pass, after every n-th step of the run;
    - ``day_passes``, ``days``: after every n-th pass of a day but the last, and after the last;
    - ``pass_steps``: after the first step of a phase in a pass, and every n-th after that;
    - ``seconds``, ``event_minutes``: when n seconds, or n minutes of event time, have passed;
    - ``stop``, ``end``: when the run was interrupted, and after its last step.

    ``do`` is one of

    - ``checkpoint``: save a checkpoint; with ``metric``, only if the last evaluation is the best;
    - ``delta``: save what has changed since the last checkpoint;
    - ``serving``: the same, unless a checkpoint of this moment is there, and publish a serving
      model of it, as ``serving`` says;
    - ``inference``: save an inference model; with ``metric``, only if the last evaluation is the
      best;
    - ``evaluate``: evaluate the model, and write the metrics to ``path`` if there is one;
    - ``early_stop``: end the run if ``metric`` has not improved in ``patience`` evaluations, or
      if ``function`` says so after an evaluation;
    - ``end_run``: end the run at the time ``deadline``, in seconds, or as soon as ``path`` exists.

    ``path`` is a URL in which ``{pass}``, ``{batch}``, ``{step}`` and ``{folder}``, the folder of
    the run, are replaced, and for runs that follow days ``{day}``, ``{next_day}`` and ``{number}``,
    that of the pass in its day. So is ``name``, by which an evaluation is reported. Of the
    checkpoints or models of a rule the newest ``keep`` stay; 0: all. ``done_folder`` is where a
    done file lists the checkpoints of days, and of which the folders of the last ``keep_days`` days
    stay.
    """

    when: RuleWhen
    every: float = Field(default=1, gt=0)
    do: RuleAction
    path: str = ""
    name: str = "{pass}"
    keep: int = Field(default=0, ge=0)
    keep_days: int = Field(default=0, ge=0)
    done_folder: str = ""
    metric: str | None = None
    minimize: bool = False
    patience: int = Field(default=0, ge=0)
    function: str = ""
    function_parameters: str = ""
    deadline: float | None = None
    serving: "ServingRule | None" = None

    @model_validator(mode="after")
    def _check_serving(self) -> Self:
        if (self.do == "serving") != (self.serving is not None):
            raise ValueError("serving: is for the action 'serving', which needs it")
        return self


class ServingRule(Options):
    """The serving models of a rule.

    ``path`` is where they go, a template as in ``Rule``; ``folder`` is where the done files are.
    Ids in the done files are ``id_by``: steps, or event times in seconds. The first model of a run
    is a base, whatever ``kind`` says; it goes to ``base_path`` if there is one. Deltas are also
    sent to the topic ``kafka_url``.
    """

    path: str
    base_path: str = ""
    folder: str
    kind: Literal["base", "delta"] = "delta"
    id_by: Literal["step", "event_time"] = "event_time"
    kafka_url: str | None = None


class ResumeOptions(Options):
    """Where a run looks for the checkpoint from which it resumes.

    Without ``prefix`` the checkpoints of the same run id count, else all that are called
    ``<prefix><step>``. With the layout ``days`` all checkpoints ``<day>/<name>`` count.
    ``if_changed`` says what happens if data or options are not those of the checkpoint: the run is
    refused, or it keeps the weights and starts from the beginning of the data. ``flag`` is the
    option of the command line, for messages.
    """

    folders: tuple[str, ...] = ("{folder}/checkpoints",)
    prefix: str | None = None
    layout: Literal["folder", "days"] = "folder"
    if_changed: Literal["refuse", "restart_data"] = "refuse"
    flag: str = "--resume"


class WarmStartOptions(Options):
    """Where weights come from before the first step.

    With ``requires_all`` every variable must be in the checkpoint, or all ``variables`` if they are
    named; else those are loaded that the checkpoint has in the same shape. With ``newest_prefix``,
    ``url`` may be a folder, of which the checkpoint ``<newest_prefix><step>`` of the highest step
    is taken. ``renames`` is a file with two names per line, of a variable here and in the
    checkpoint: only those are loaded. ``frozen`` are the variables that are not trained.
    """

    url: Url | None = None
    requires_all: bool = True
    variables: tuple[str, ...] = ()
    newest_prefix: str | None = None
    renames: str | None = None
    frozen: tuple[str, ...] = ()


class InferenceOptions(Options):
    """Inputs and outputs of inference models (empty: all), and the type of the rows in files.

    ``fold_mib`` is the limit of tables that are also folded into the ONNX graph; 0: none are.
    ``assets`` are the paths of further files of the model.
    """

    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    rows: RowType = "float32"
    fold_mib: int = Field(default=0, ge=0, le=MAX_FOLD_MIB)
    assets: tuple[str, ...] = ()
