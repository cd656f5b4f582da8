"""``fleetrec init``: from a data file to a job that trains on it."""

import dataclasses
from pathlib import Path

import typer

from fleetrec.core.errors import ConfigError
from fleetrec.data.files import list_files
from fleetrec.planning.first_pipeline import DataPaths, choose_label, pipeline_text
from fleetrec.planning.hold_out import split_rows
from fleetrec.planning.table_profile import TableProfile, profile_table

MIN_FILES = 5  # with at least this number of files, whole files are held out
PIPELINE = "pipeline.config"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InitRequest:
    """The arguments of the command; ``split`` is auto, time or random."""

    data: str
    out: Path | None = None
    label: str | None = None
    split: str = "auto"

    def folder(self) -> Path:
        """Return the folder to create."""
        name = Path(self.data.rstrip("/").replace("*", "all")).name.partition(".")[0]
        return self.out or Path(f"{name or 'data'}_model")


def init_job(request: InitRequest) -> None:
    """Write a pipeline for some data, and say what it has chosen."""
    if request.split not in ("auto", "time", "random"):
        raise ConfigError([f"--split: expected auto, time or random, got {request.split!r}"])
    folder = request.folder()
    if folder.exists():
        raise ConfigError([f"{folder}: exists already; give another folder by --out"])
    files = [file for file in list_files(request.data) if file.num_bytes]
    if not files:
        raise ConfigError([f"{request.data}: no file with data"])
    profile = profile_table(files[0].path)
    label = choose_label(profile, request.label)
    time_column = _time_column(profile, request.split)
    folder.mkdir(parents=True)
    if len(files) >= MIN_FILES:
        paths = _held_out_files([file.path for file in files], profile)
    elif len(files) == 1:
        train, evaluate, num_train = split_rows(
            files[0].path, folder / "data", profile.format, time_column=time_column
        )
        how = "at random" if time_column is None else f"by {time_column}, the last to evaluate on"
        paths = DataPaths(
            train=str(folder / "data" / train),
            evaluate=str(folder / "data" / evaluate),
            num_train=num_train,
            how=f"Split 90:10 {how}.",
        )
    else:
        raise ConfigError(
            [f"{request.data}: expected one file, or {MIN_FILES} and more, got {len(files)}"]
        )
    config = folder / PIPELINE
    config.write_text(
        pipeline_text(profile, label, paths, model_dir=str(folder / "model"), source=request.data),
        encoding="utf-8",
    )
    _report(profile, label.name, paths, config)


def _time_column(profile: TableProfile, split: str) -> str | None:
    times = [column.name for column in profile.columns if column.kind == "time"]
    if split == "random":
        return None
    if split == "time" and not times:
        raise ConfigError(["--split time: no column is called like a time; use --split random"])
    return times[0] if times else None


def _held_out_files(files: list[str], profile: TableProfile) -> DataPaths:
    """Hold out the last files by name, which often is their date."""
    num_evaluate = max(1, len(files) // 10)
    train, evaluate = files[:-num_evaluate], files[-num_evaluate:]
    return DataPaths(
        train=",".join(train),
        evaluate=",".join(evaluate),
        num_train=profile.num_rows * len(train),
        how=f"The last {len(evaluate)} of {len(files)} files are to evaluate on.",
    )


def _report(profile: TableProfile, label: str, paths: DataPaths, config: Path) -> None:
    width = max(len(column.name) for column in profile.columns)
    for column in profile.columns:
        kind = "label" if column.name == label else column.kind
        values = "" if kind == "label" else f"{column.num_unique:>9,} values  {column.reason}"
        typer.echo(f"  {column.name:<{width}}  {kind:<7} {values}".rstrip())
    typer.echo(paths.how)
    typer.echo(f"made {config}; edit it, or train at once:")
    typer.echo(f"  fleetrec run -m {config.parent}")
