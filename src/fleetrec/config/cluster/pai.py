"""``pai -name easy_rec_ext -D...``: EasyRec's jobs on PAI, as what FleetRec submits."""

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import Field, ValidationError

from fleetrec.config.options import Options
from fleetrec.config.problems import hint
from fleetrec.config.yaml_dialect.section import Int
from fleetrec.core.errors import ConfigError

NAMES = ("easy_rec_ext", "easy_rec")
DISTRIBUTE = MappingProxyType(
    {"": None, "ps": "PSStrategy", "mirrored": "MirroredStrategy"}
    | {"collective": "CollectiveAllReduceStrategy"}
)
# What FleetRec has no use for, and what takes its place.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "arn": "roles are for PAI; give the keys of the store to the nodes by config.env",
        "selected_cols": "columns that no feature, label or weight needs are not read; name those "
        "of a table in data_config.input_fields",
        "tables": "use -Dtrain_tables and -Deval_tables",
        "with_evaluator": "use -Deval_method",
        "boundary_table": "write boundaries into the features of the pipeline",
        "sampler_table": "give the file of the sampler in data_config.negative_sampler",
        "hpo_param_path": "start one job for each set of parameters, with -Dedit_config_json",
        "hpo_metric_save_path": "read eval_result.txt in the model folder",
        "clear_model": "choose another -Dmodel_dir, or delete the folder",
        "max_wait_ckpt_ts": "fleetrec eval evaluates the checkpoints that are there",
    }
)
CMDS_ELSEWHERE = MappingProxyType(
    {
        "predict": "use fleetrec predict",
        "export": "use fleetrec export",
        "check": "use fleetrec check",
        "export_checkpoint": "checkpoints are readable as they are: fleetrec table dump",
        "vector_retrieve": "use a library for nearest neighbours on exported vectors",
    }
)


class ClusterRole(Options):
    """``ps`` or ``worker`` of ``-Dcluster``: cpu and gpu in hundredths, memory in MB."""

    count: Int = Field(default=1, ge=0)
    cpu: Int = Field(default=0, ge=0)
    gpu: Int = Field(default=0, ge=0)
    memory: Int = Field(default=0, ge=0)


class Cluster(Options):
    """``-Dcluster``."""

    ps: ClusterRole = ClusterRole(count=0)
    worker: ClusterRole = ClusterRole()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaiJob:
    """A converted job: its pipeline, what runs on the nodes, and the keys of ``submit``."""

    config: str
    start_cmd: str
    submit: Mapping[str, Any]
    env: Mapping[str, str]
    notices: tuple[str, ...]


def decode_pai(text: str, *, replaced: Mapping[str, str], skips_refused: bool = False) -> PaiJob:
    """Convert a command, or raise ConfigError with a line for each option that is refused.

    ``replaced`` are options that are given in the place of those of the command. With
    ``skips_refused`` the job is converted without the options that are refused.
    """
    return _Decoder({**_options(text), **replaced}, skips_refused=skips_refused).decode()


def _options(text: str) -> dict[str, str]:
    """Return the ``-D`` options of a command."""
    flat = re.sub(r"\s*;\s*$", "", text.strip()).replace("\\\n", " ")
    try:
        words = shlex.split(flat)
    except ValueError as error:
        raise ConfigError([f"pai command: {error}"]) from error
    if words[:1] != ["pai"]:
        raise ConfigError(["pai command: expected pai -name easy_rec_ext -D..., got " + repr(text)])
    found: dict[str, str] = {}
    problems: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-name", "-project"):
            value = next(rest, "")
            if word == "-name" and value not in NAMES:
                problems.append(f"-name {value}: expected {' or '.join(NAMES)}")
            continue
        name, equals, value = word.partition("=")
        if not (name.startswith("-D") and equals):
            problems.append(f"{word}: expected -Dname=value")
            continue
        found[name[2:]] = value
    if problems:
        raise ConfigError(problems)
    return found


class _Decoder:
    """Goes through the options one by one."""

    def __init__(self, options: Mapping[str, str], *, skips_refused: bool) -> None:
        self._options = options
        self._skips_refused = skips_refused
        self._problems: list[str] = []
        self._refused: list[str] = []
        self._notices: list[str] = []
        self._edits: dict[str, Any] = {}
        self._submit: dict[str, Any] = {"workers": 1}
        self._env: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._known: Mapping[str, Callable[[str], None]] = MappingProxyType(
            {
                "config": self._path("pipeline_config_path"),
                "model_dir": self._path("model_dir"),
                "train_tables": self._tables("train_input_path"),
                "eval_tables": self._tables("eval_input_path"),
                "cluster": self._cluster,
                "cmd": self._cmd,
                "eval_method": self._eval_method,
                "edit_config_json": self._edit_json,
                "ossHost": self._oss_host,
                "buckets": self._buckets,
                "distribute_strategy": self._distribute,
                "num_gpus_per_worker": self._num_gpus,
                "continue_train": self._continue_train,
            }
        )

    def decode(self) -> PaiJob:
        for name, value in self._options.items():
            if name in self._known:
                self._known[name](value)
            elif name in REFUSED:
                self._refuse(name, REFUSED[name])
            else:
                names = (*self._known, *REFUSED)
                self._problems.append(f"-D{name}: unknown option{hint(name, names)}")
        if not self._options.get("config"):
            self._problems.append("-Dconfig: required, but missing")
        problems = [*self._problems, *(() if self._skips_refused else self._refused)]
        if problems:
            raise ConfigError(problems)
        notices = [*self._notices, *(f"left out: {text}" for text in self._refused)]
        return PaiJob(
            config=self._options["config"],
            start_cmd=self._start_cmd(),
            submit=self._submit,
            env=self._env,
            notices=tuple(notices),
        )

    def _start_cmd(self) -> str:
        is_train = self._options.get("cmd", "train") == "train"
        paths = {**self._paths, "pipeline_config_path": _name(self._options["config"])}
        words = ["python", "-m", f"fleetrec.{'train_eval' if is_train else 'eval'}"]
        for name, value in sorted(paths.items(), reverse=True):
            if is_train or name != "train_input_path":
                for one in value.split(",") if name.endswith("input_path") else [value]:
                    words += [f"--{name}", one]
        if is_train and self._edits:
            words += ["--edit_config_json", json.dumps(self._edits)]
        if is_train and self._options.get("continue_train", "true").lower() in ("true", "1"):
            words.append("--continue_train")  # PAI's default
        return shlex.join(words)

    def _refuse(self, name: str, text: str) -> None:
        self._refused.append(f"-D{name}={self._options[name]}: refused: {text}")

    def _path(self, flag: str) -> Callable[[str], None]:
        return lambda value: self._paths.__setitem__(flag, value)

    def _tables(self, flag: str) -> Callable[[str], None]:
        def read(value: str) -> None:
            name = flag.replace("input_path", "tables")
            if "odps://" in value:
                self._refuse(
                    name,
                    f"tables of MaxCompute cannot be read; export it to Parquet or CSV and give "
                    f"the files with --{flag}",
                )
            else:
                self._paths[flag] = value

        return read

    def _cmd(self, value: str) -> None:
        if value in CMDS_ELSEWHERE:
            self._refuse("cmd", CMDS_ELSEWHERE[value])
        elif value not in ("train", "evaluate"):
            known = ("train", "evaluate", *CMDS_ELSEWHERE)
            self._problems.append(f"-Dcmd={value}: unknown{hint(value, known)}")

    def _cluster(self, value: str) -> None:
        try:
            cluster = Cluster.model_validate(json.loads(value))
        except json.JSONDecodeError as error:
            self._problems.append(f"-Dcluster={value}: not JSON: {error}")
            return
        except ValidationError as error:
            for detail in error.errors():
                at = ".".join(map(str, detail["loc"]))
                self._problems.append(f"-Dcluster: {at}: {detail['msg']}, got {detail['input']!r}")
            return
        worker, ps = cluster.worker, cluster.ps
        self._submit["workers"] = max(1, worker.count)
        self._add_resources("worker", worker)
        if ps.count:
            self._submit["servers"] = ps.count
            self._add_resources("server", ps)
        if worker.gpu and ps.count:
            self._refuse(
                "cluster",
                "workers of servers compute on the CPU; leave gpu out, or ps and set "
                "train_config.train_distribute: EmbeddingParallelStrategy",
            )
        elif worker.gpu:
            self._submit["worker_gpus"] = -(-worker.gpu // 100)
        if ps.gpu:
            self._refuse("cluster", "servers have no use for a GPU; leave gpu of ps out")
        separate = self._options.get("eval_method") == "separate"
        if separate and worker.count > 1:
            self._submit["workers"] = worker.count - 1

    def _add_resources(self, role: str, needs: ClusterRole) -> None:
        if needs.cpu:
            self._submit[f"{role}_cpus"] = -(-needs.cpu // 100)
        if needs.memory:
            self._submit[f"{role}_memory"] = f"{needs.memory}Mi"

    def _eval_method(self, value: str) -> None:
        if value == "separate":
            self._notices.append(
                "-Deval_method=separate: no worker is kept for evaluation; worker 0 evaluates "
                "between its steps, and the worker of EasyRec that would only evaluate is left out"
            )
        elif value == "none":
            self._edits["eval_input_path"] = ""
        elif value != "master":
            known = ("separate", "none", "master")
            self._problems.append(f"-Deval_method={value}: unknown{hint(value, known)}")

    def _edit_json(self, value: str) -> None:
        try:
            found = json.loads(value)
        except json.JSONDecodeError as error:
            self._problems.append(f"-Dedit_config_json={value}: not JSON: {error}")
            return
        if isinstance(found, dict):
            self._edits |= found
        else:
            self._problems.append(f"-Dedit_config_json={value}: expected an object")

    def _oss_host(self, value: str) -> None:
        self._env["FSSPEC_OSS_ENDPOINT"] = value if "://" in value else f"https://{value}"

    def _buckets(self, value: str) -> None:
        """Read the buckets that a job may use; those of PAI's inner form have options."""
        buckets = []
        for one in value.split(","):
            url, _, options = one.partition("?")
            buckets.append(url.rstrip("/") + "/")
            for option in filter(None, options.split("&")):
                name, _, text = option.partition("=")
                if name == "host":
                    self._oss_host(text)
                else:
                    self._refused.append(f"-Dbuckets: {name}={text}: refused: {REFUSED['arn']}")
        for name in ("config", "model_dir"):
            url = self._options.get(name, "")
            if url.startswith("oss://") and not url.startswith(tuple(buckets)):
                self._problems.append(f"-D{name}={url}: in none of -Dbuckets={value}")

    def _distribute(self, value: str) -> None:
        if value not in DISTRIBUTE:
            text = "ess" if value == "ess" else value
            self._refuse(
                "distribute_strategy",
                f"{text} is not supported; expected ps, mirrored or collective, or set "
                "train_config.train_distribute: EmbeddingParallelStrategy",
            )
        elif DISTRIBUTE[value] is not None:
            self._edits["train_config.train_distribute"] = DISTRIBUTE[value]

    def _num_gpus(self, value: str) -> None:
        if value.isdecimal():
            self._edits["train_config.num_gpus_per_worker"] = int(value)
        else:
            self._problems.append(f"-Dnum_gpus_per_worker={value}: expected a whole number")

    def _continue_train(self, value: str) -> None:
        if value.lower() not in ("true", "false", "0", "1"):
            self._problems.append(f"-Dcontinue_train={value}: expected true or false")


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
