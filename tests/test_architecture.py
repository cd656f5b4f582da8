"""The layout is a promise; these tests keep it."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fleetrec"
NATIVE = Path(__file__).parents[1] / "native"
ENTRIES = {
    "__main__",
    "run",
    "predict",
    "recall",
    "check",
    "new",
    "plan",
    "launch_ps",
    "online",
    "report",
    "serve",
    "serve_table",
    "train_eval",
    "eval",
    "node",
}  # python -m fleetrec.<verb>
LAYERS = (  # top to bottom; a package may import only packages on later lines
    {"api"},
    {"cli"},
    {"fluid"},
    {"fleet", "planning"},
    {"train", "launch", "serving"},
    {"export"},
    {"parallel"},
    {"server"},
    {"checkpoint"},
    {"models", "data"},
    {"tasks", "embedding", "nn", "optim"},
    {"features"},
    {"config"},
    {"_native", "reader"},
    {"core"},
)
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PUBLIC_METHODS = 15
FOREIGN_API = {"Fleet"}  # classes whose methods are those of another framework
GROUPS = ("SoloGroup", "RankGroup", "WorkerGroup")
MODE_WORDS = {"engine", "fleet_mode", "rolling", "newest"}

# Words of a private style, and what to write instead.
PLAIN_WORDS = (
    (r"company", "group"),
    (r"surroundings?", "context"),
    (r"judg(?:e[sd]?|ing|e?ments?)", "evaluate, evaluation"),
    (r"told", "send, receive, report; 'distinguished'"),
    (r"hears?|heard", "receive"),
    (r"standings?", "progress"),
    (r"bring(?:s|ing)?|brought", "send, contribute, have"),
    (r"(?:take[sn]?|taking|took) up(?! to)", "load, restore, continue"),
    (r"so many", "this number of, N"),
    (r"nobody|anybody|whoever", "say who: no process, any rank, the caller"),
    (r"last rites", "cleanup"),
    (r"anew", "again"),
    (r"wish(?:es|ed)?", "request"),
    (r"scoreboard|tally", "metrics, counters"),
    (r"milestones?", "rule"),
    (r"sights", "impressions"),
    (r"beside it|by the door|behind its back", "say where"),
    (r"comes? by|came by", "reach"),
    (r"(?:has|have|had) to say", "report"),
    (r"(?:gives?|gave|given) up rows", "evict rows"),
    (r"its own death|what it holds", "say what: restarts, tables"),
    (r"(?:go|goes|going|went) on", "continue, resume"),
    (r"tells? (?:whether|of|how)", "return whether, report"),
    (r"behind (?:a |the )?urls?", "at a URL"),
    (r"occasions?", "context"),
    (r"parted", "separated, split"),
    (r"upon", "on top of, on"),
    (r"weighs", "weights"),
    (r"dear|at will|no honest", "expensive; optionally; real"),
)
NOT_PLAIN = re.compile(
    "|".join(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])" for words, _ in PLAIN_WORDS), re.IGNORECASE
)
PRIVATE_NAMES = {"around", "told_ahead", "company", "wish"}
ROOT = PACKAGE.parents[1]
PROSE = (
    *PACKAGE.rglob("*.py"),
    *PACKAGE.rglob("*.pyi"),
    *PACKAGE.rglob("*.md"),
    *NATIVE.rglob("*.h"),
    *NATIVE.rglob("*.cc"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
)
PLAIN_PROSE = sorted(PROSE)

SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")
each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))


TESTS = Path(__file__).parent
TYPE_MODULES = {  # protocols, types and constants: nothing in them runs by itself
    "config/dataset_features.py",
    "config/features.py",
    "config/groups.py",
    "config/input_rules.py",
    "config/processes.py",
    "config/rules.py",
    "config/schedules.py",
    "core/cursor.py",
    "core/errors.py",
    "core/sides.py",
    "core/tower_names.py",
    "embedding/row_update.py",
    "embedding/store.py",
    "export/answer.py",
    "parallel/group.py",
    "parallel/rows.py",
    "parallel/state.py",
    "planning/workload.py",
    "server/service_options.py",
    "serving/request_error.py",
    "tasks/metric.py",
    "tasks/task.py",
    "train/context.py",
    "train/events.py",
}
# Folders and modules that are tested elsewhere: by one suite over a family of components, with the
# command that they are behind, or by processes of their own.
TESTED_ELSEWHERE = {
    "config/losses.py": "unit/tasks/test_loss_terms.py",
    "config/samplers.py": "unit/data/test_item_negatives.py",
    "core/expression.py": "easyrec/test_generated_pipelines.py",
    "data/examples.py": "easyrec/test_generated_pipelines.py",
    "data/item_files.py": "unit/data/test_item_negatives.py",
    "export/feed_names.py": "unit/export/test_inference.py",
    "train/rule_moments.py": "unit/train/test_rules.py",
    "train/stop_function.py": "easyrec/test_generated_pipelines.py",
    "api.py": "jobs/test_python_api.py",
    "checkpoint/import_rows.py": "jobs/test_table_command.py",
    "checkpoint/table_view.py": "jobs/test_table_command.py",
    "checkpoint/tables.py": "golden/test_checkpoint_manifest.py",
    "cli": "jobs",
    "config/cluster/kubernetes.py": "unit/config/cluster/test_kubernetes_options.py",
    "config/cluster/ray.py": "unit/launch/test_ray.py",
    "launch/ray_driver.py": "unit/launch/test_ray.py",
    "launch/ray_replica.py": "unit/launch/test_ray.py",
    "launch/kubectl.py": "unit/launch/test_kubernetes.py",
    "launch/manifests/ending.py": "golden/test_manifests.py",
    "launch/manifests/files.py": "unit/launch/test_kubernetes.py",
    "launch/manifests/folder.py": "unit/launch/test_kubernetes.py",
    "launch/manifests/kubeflow.py": "golden/test_manifests.py",
    "launch/manifests/names.py": "unit/launch/manifests/test_object_names.py",
    "launch/manifests/plain.py": "golden/test_manifests.py",
    "launch/manifests/pods.py": "golden/test_manifests.py",
    "launch/manifests/ranks.py": "golden/test_manifests.py",
    "launch/manifests/serving.py": "golden/test_manifests.py",
    "launch/manifests/volcano.py": "golden/test_manifests.py",
    "config/cluster/check.py": "jobs/test_submit_checks.py",
    "config/cluster/counts.py": "jobs/test_submit.py",
    "config/cluster/decode.py": "jobs/test_submit_checks.py",
    "config/cluster/keys.py": "jobs/test_submit_checks.py",
    "config/cluster/paddlecloud.py": "jobs/test_submit_paddlecloud.py",
    "config/cluster/sections.py": "jobs/test_submit.py",
    "config/cluster/shape.py": "jobs/test_submit_checks.py",
    "config/job.py": "unit/config/yaml_dialect/test_decode.py",
    "config/pipeline_dialect": "unit/config/pipeline_dialect/test_pipeline_decode.py",
    "train/waiting.py": "unit/train/test_follow.py",
    "train/peer_counters.py": "unit/train/test_saver.py",
    "config/online.py": "unit/config/yaml_dialect/test_online.py",
    "config/yaml_dialect/carried_keys.py": "unit/config/yaml_dialect/test_decode.py",
    "config/yaml_dialect/datasets.py": "unit/config/yaml_dialect/test_decode.py",
    "config/yaml_dialect/section.py": "unit/config/yaml_dialect/test_schema.py",
    "config/yaml_dialect/translate.py": "unit/config/yaml_dialect/test_decode.py",
    "core/event_time.py": "unit/train/test_pass_plan.py",
    "core/exit.py": "multiprocess/test_light_supervisor.py",
    "core/launchers": "unit/core/launchers/test_precedence.py",
    "core/progress.py": "golden/test_progress.py",
    "core/remote_files.py": "unit/data/test_remote.py",
    "data/block.py": "contract/test_sources.py",
    "data/columns.py": "contract/test_row_sources.py",
    "data/convert.py": "jobs/test_data_command.py",
    "data/decode.py": "contract/test_sources.py",
    "data/describe.py": "jobs/test_data_command.py",
    "data/files.py": "unit/data/test_remote.py",
    "data/parsed.py": "contract/test_sources.py",
    "data/plan.py": "unit/data/test_sharing.py",
    "data/prefetch.py": "unit/data/test_loader.py",
    "data/program.py": "multiprocess/test_pipe_command.py",
    "data/samples.py": "unit/data/test_choosing.py",
    "data/source.py": "contract/test_sources.py",
    "data/sources": "contract/test_row_sources.py",
    "data/streams/reader.py": "contract/test_streams.py",
    "data/stages": "unit/data/test_stage.py",
    "data/text.py": "unit/data/test_stream.py",
    "data/user_code.py": "unit/data/sources/test_user_reader.py",
    "data/windows.py": "unit/data/test_stream.py",
    "embedding/layout.py": "unit/embedding/test_collection.py",
    "embedding/native_store.py": "contract/test_stores.py",
    "embedding/record.py": "unit/embedding/test_saved_store.py",
    "embedding/snapshot.py": "unit/embedding/test_saved_store.py",
    "embedding/table.py": "contract/test_stores.py",
    "export/__main__.py": "jobs/test_export_command.py",
    "export/column_files.py": "jobs/test_predict_command.py",
    "export/lookup_nodes.py": "unit/export/test_folding.py",
    "export/assets.py": "jobs/test_export_command.py",
    "export/graph_predictor.py": "unit/export/test_inference.py",
    "export/item_files.py": "jobs/test_recall_command.py",
    "export/manifest.py": "golden/test_inference_manifest.py",
    "export/prediction.py": "jobs/test_predict_command.py",
    "export/prediction_files.py": "jobs/test_predict_command.py",
    "export/opened.py": "jobs/test_recall_command.py",
    "export/retriever.py": "jobs/test_recall_command.py",
    "features": "contract/test_features.py",
    "fleet": "unit/fleet/test_fleet_program.py",
    "fluid/io.py": "unit/fluid/test_fluid_executor.py",
    "fluid/layers": "unit/fluid/test_fluid_layers.py",
    "fluid/missing.py": "unit/fluid/test_fluid_names.py",
    "fluid/optimizer.py": "unit/fluid/test_fluid_executor.py",
    "fluid/param_attr.py": "unit/fluid/test_fluid_layers.py",
    "fluid/place.py": "unit/fluid/test_fluid_names.py",
    "fluid/tasks.py": "unit/fluid/test_fluid_executor.py",
    "fluid/training.py": "unit/fluid/test_fluid_executor.py",
    "fluid/incubate": "multiprocess/test_fluid_program.py",
    "fluid/transpiler": "multiprocess/test_fluid_program.py",
    "launch": "contract/test_launchers.py",
    "models": "contract/test_models.py",
    "nn": "unit/nn/test_layers.py",
    "optim": "unit/optim/test_dense.py",
    "parallel/dense_ddp.py": "contract/test_rank_groups.py",
    "parallel/held_state.py": "contract/test_states.py",
    "parallel/prefetch_ids.py": "contract/test_rank_groups.py",
    "parallel/rank_comm.py": "contract/test_rank_groups.py",
    "parallel/rank_group.py": "contract/test_rank_groups.py",
    "parallel/row_exchange.py": "contract/test_rank_groups.py",
    "parallel/rows_local.py": "contract/test_steppers.py",
    "parallel/rows_server.py": "contract/test_steppers.py",
    "parallel/rows_sharded.py": "contract/test_rank_groups.py",
    "parallel/sample_exchange.py": "multiprocess/test_global_shuffle.py",
    "parallel/server_state.py": "contract/test_states.py",
    "parallel/solo.py": "contract/test_steppers.py",
    "parallel/stepper.py": "contract/test_steppers.py",
    "parallel/worker_group.py": "contract/test_steppers.py",
    "parallel/worker_session.py": "contract/test_states.py",
    "reader.py": "unit/data/sources/test_user_reader.py",
    "server/__main__.py": "unit/server/test_server_main.py",
    "serving/app.py": "jobs/test_serve_predictions.py",
    "serving/recall.py": "jobs/test_recall_command.py",
    "serving/run.py": "jobs/test_serve_predictions.py",
    "server/wire.py": "property/test_server_wire.py",
    "tasks": "contract/test_tasks.py",
    "train/checkpoint_export.py": "jobs/test_export_command.py",
    "train/inference_export.py": "jobs/test_run.py",
    "train/observers.py": "unit/cli/test_observers.py",
    "train/pass_report.py": "unit/train/test_loop.py",
    "train/phase.py": "unit/train/test_start.py",
    "train/prediction.py": "jobs/test_predict_command.py",
    "train/stored_run.py": "jobs/test_export_command.py",
    "train/warm_start.py": "unit/train/test_start.py",
}


def layer_of(package: str) -> int:
    found = [i for i, names in enumerate(LAYERS) if package in names]
    assert found, f"{package}: name the layer of this new package in LAYERS"
    return found[0]


def own_package(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if name in ENTRIES or path.stem == "__main__" else name


def imported_packages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "fleetrec":
            names = [f"fleetrec.{alias.name}" for alias in node.names if alias.name[0] != "_"]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from ((node.lineno, n.split(".")[1]) for n in names if n.startswith("fleetrec."))


@each_source
def test_imports_point_down(path: Path) -> None:
    own = own_package(path)
    for line, other in imported_packages(ast.parse(path.read_text())):
        if other != own:
            assert layer_of(own) < layer_of(other), f"{path}:{line}: {own} may not import {other}"


@each_source
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES, f"{path}: split this file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, (
                f"{path}:{node.lineno}: {node.name} has {length} lines"
            )


@pytest.mark.parametrize("path", sorted(NATIVE.rglob("*.[ch]*")), ids=lambda p: p.name)
def test_native_sizes(path: Path) -> None:
    assert path.read_text().count("\n") <= MAX_FILE_LINES, f"{path}: split this file"


@each_source
def test_no_module_level_state(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        mutable = isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp)
        assert not mutable, f"{path}:{node.lineno}: module-level mutable value"


@each_source
def test_importing_does_nothing(path: Path) -> None:
    """Only definitions, constants and the main guard stand at the top of a module."""
    for node in ast.parse(path.read_text()).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_guard = isinstance(node, ast.If) and (
            "__name__" in ast.unparse(node.test) or ast.unparse(node.test) == "TYPE_CHECKING"
        )
        is_setup = isinstance(node, ast.Expr) and ast.unparse(node).startswith("app.add_typer(")
        is_definition = isinstance(
            node,
            ast.Import
            | ast.ImportFrom
            | ast.FunctionDef
            | ast.AsyncFunctionDef
            | ast.ClassDef
            | ast.Assign
            | ast.AnnAssign,
        )
        assert is_docstring or is_guard or is_setup or is_definition, f"{path}:{node.lineno}"


@each_source
def test_the_environment_is_read_in_one_place(path: Path) -> None:
    if path == PACKAGE / "core" / "env.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        name = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
        assert name not in ("os.environ", "os.getenv", "environ", "getenv"), f"{path}:{node.lineno}"


def is_below(path: Path, *rooms: str) -> bool:
    name = path.relative_to(PACKAGE).as_posix()
    return any(name == room or name.startswith(f"{room}/") for room in rooms)


@each_source
def test_only_groups_know_what_kind_of_group_there_is(path: Path) -> None:
    if is_below(path, "parallel"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        is_test = isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "type")
        named = ast.unparse(node).split("(", 1)[-1] if is_test else ""
        assert not any(kind in named for kind in GROUPS), f"{path}:{node.lineno}: {named}"


@each_source
def test_only_planning_a_job_asks_for_its_mode(path: Path) -> None:
    if is_below(path, "config", "launch", "parallel/join.py", "cli/jobs.py"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        is_asked = isinstance(node, ast.Attribute) and node.attr in MODE_WORDS
        assert not is_asked, f"{path}:{node.lineno}: {ast.unparse(node)}"


@each_source
def test_classes_are_small(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ClassDef) or node.name in FOREIGN_API:
            continue
        public = [
            one.name
            for one in node.body
            if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
            if not any(ast.unparse(decorator) == "property" for decorator in one.decorator_list)
        ]
        assert len(public) <= MAX_PUBLIC_METHODS, (
            f"{path}:{node.lineno}: {node.name} has {len(public)} public methods"
        )


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_is_quick() -> None:
    loaded = modules_after("import fleetrec")
    assert not loaded & {"torch", "numpy", "pydantic", "typer"}


def test_help_needs_nothing_heavy() -> None:
    loaded = modules_after("import fleetrec.cli.main")
    assert not loaded & {"torch", "numpy", "pydantic", "pyarrow", "onnx"}


def test_a_supervisor_needs_nothing_heavy() -> None:
    loaded = modules_after("import fleetrec.cli.cluster")
    assert not loaded & {"torch", "numpy", "pydantic", "pyarrow", "grpc"}
    assert "torch" not in modules_after("import fleetrec.cli.run_cluster")


def test_launchers_need_nothing_heavy() -> None:
    names = [path.stem for path in sorted((PACKAGE / "launch").glob("*.py")) if path.stem[0] != "_"]
    loaded = modules_after("\n".join(f"import fleetrec.launch.{name}" for name in names))
    assert not loaded & {"torch", "numpy", "pydantic", "pyarrow", "grpc"}


def test_supervising_a_job_needs_no_torch() -> None:
    assert "torch" not in modules_after("import fleetrec.cli.jobs, fleetrec.cli.run")


def test_launchers_load_no_torch() -> None:
    modules = [path.stem for path in (PACKAGE / "launch").glob("*.py") if path.stem != "__init__"]
    loaded = modules_after("\n".join(f"import fleetrec.launch.{name}" for name in modules))
    assert not loaded & {"torch", "numpy", "pydantic"}


def test_a_predictor_needs_no_torch() -> None:
    names = ("predictor", "follower", "done_files", "column_files", "prediction")
    assert "torch" not in modules_after(
        "\n".join(f"import fleetrec.export.{name}" for name in names)
    )


def test_a_server_of_predictions_needs_no_torch() -> None:
    loaded = modules_after("import fleetrec.cli.serve, fleetrec.serving.app")
    assert not loaded & {"torch", "grpc"}


def test_test_files_have_names_of_their_own():
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))  # else pytest cannot collect both in one run


def mirrored_tests(module: Path) -> list[Path]:
    """Return the tests at the place of a module; the name may begin with that of its folder."""
    folder = TESTS / "unit" / module.parent
    prefixes = ("", f"{module.parent.name}_", f"{module.parent.name.partition('_')[0]}_")
    names = {f"test_{prefix}{module.stem}.py" for prefix in prefixes}
    return [folder / name for name in sorted(names) if (folder / name).is_file()]


def is_tested_elsewhere(module: Path) -> bool:
    name = module.as_posix()
    return any(name == one or name.startswith(f"{one}/") for one in TESTED_ELSEWHERE)


def own_modules() -> list[Path]:
    """Return the modules that need tests: no entry points, no folders of single models."""
    found = [path.relative_to(PACKAGE) for path in SOURCES if path.stem != "__init__"]
    entries = {Path(f"{name}.py") for name in ENTRIES} | {Path("models/__main__.py")}
    in_zoo = {path for path in found if path.parts[0] == "models" and len(path.parts) > 2}
    return [path for path in found if path not in entries | in_zoo]


@pytest.mark.parametrize("module", own_modules(), ids=str)
def test_every_module_has_tests_where_a_reader_looks_for_them(module: Path) -> None:
    if module.as_posix() in TYPE_MODULES or is_tested_elsewhere(module):
        return
    assert mirrored_tests(module), (
        f"{module}: expected tests/unit/{module.parent}/test_{module.stem}.py; write it, or name "
        "in TESTED_ELSEWHERE the suite that tests the module"
    )


def test_the_map_of_tests_names_what_is_there():
    names = {module.as_posix() for module in own_modules()}
    assert names >= TYPE_MODULES
    for name, tests in TESTED_ELSEWHERE.items():
        assert (TESTS / tests).exists(), f"{name}: no such tests: {tests}"
        assert (PACKAGE / name).exists(), f"{name}: no such module"
        if name.endswith(".py"):
            assert not mirrored_tests(Path(name)), f"{name}: has tests at its place; drop the entry"


def private_words(text: str) -> list[tuple[int, str]]:
    """Return line numbers and words; a line break or an underscore counts as a blank."""
    flat = re.sub(r"\n *(?:#|//) ", lambda m: "\n" + " " * (len(m[0]) - 1), text)
    flat = flat.replace("_", " ")
    pattern = re.compile(NOT_PLAIN.pattern.replace(" ", r"\s+"), re.IGNORECASE)
    return [(flat.count("\n", 0, m.start()) + 1, m[0]) for m in pattern.finditer(flat)]


@pytest.mark.parametrize("path", PLAIN_PROSE, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_and_documents_use_plain_words(path: Path) -> None:
    found = [f"{path}:{line}: {word!r}" for line, word in private_words(path.read_text())]
    assert not found, "\n".join([*found, "say it in the words of PLAIN_WORDS"])


@each_source
def test_names_use_plain_words(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        name = getattr(node, "arg", None) or getattr(node, "id", None)
        assert name not in PRIVATE_NAMES, f"{path}:{node.lineno}: {name}"


def test_private_words_are_found_in_names_comments_and_across_lines():
    text = "\n\n    # sent to so\n    # many workers\n    is_told = 1  # Nobody\n"
    assert private_words(text) == [(3, "so\n      many"), (5, "told"), (5, "Nobody")]
    assert private_words("\n// steps go\n// on") == [(2, "go\n   on")]
    assert private_words("wrap around the end; take up to 3 batches; untold") == []
