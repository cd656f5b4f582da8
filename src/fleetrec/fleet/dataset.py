"""Data sets as programs of the Fleet API describe them: variables, files, a program before them."""

import contextlib
import dataclasses
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, Protocol

from fleetrec.config.job import DatasetOptions, DenseSlot
from fleetrec.core.batch import Inputs
from fleetrec.core.errors import ConfigError
from fleetrec.data.files import DataFile, list_files
from fleetrec.data.loader import Loader
from fleetrec.data.memory import Exchange, MemoryRows

DatasetName = Literal["QueueDataset", "InMemoryDataset"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One input of a model: a list of ids per sample, or a dense array of one shape."""

    name: str
    shape: tuple[int, ...]
    is_sparse: bool


def data(
    name: str,
    shape: Sequence[int],
    dtype: Literal["int64", "float32"] = "float32",
    lod_level: int = 0,
) -> Variable:
    """Declare an input: ids are int64, with lod_level 1 if a sample may have several."""
    if dtype not in ("int64", "float32"):
        raise ConfigError(
            [
                f"variable {name}: expected dtype 'int64' for ids or 'float32' for numbers, "
                f"got {dtype!r}"
            ]
        )
    if lod_level and dtype != "int64":
        raise ConfigError([f"variable {name}: lod_level {lod_level} is for int64, not {dtype}"])
    sizes = tuple(size for size in shape if size != -1)  # -1 stands for the samples of a batch
    if not sizes or min(sizes) < 1:
        raise ConfigError([f"variable {name}: expected positive sizes, got shape {list(shape)}"])
    return Variable(name=name, shape=sizes, is_sparse=dtype == "int64")


class Connected(Protocol):
    """A fleet whose workers can pass samples to each other."""

    def exchange(self, inputs: Inputs) -> contextlib.AbstractContextManager[Exchange]:
        """Give the way from worker to worker while the block runs."""
        ...


class Dataset:
    """Files that go through a program, which prints what the variables hold."""

    kind: DatasetName

    def __init__(self) -> None:
        self._variables: tuple[Variable, ...] = ()
        self._files: tuple[DataFile, ...] = ()
        self._pipe_command: str | None = None
        self._batch_size = 1
        self._num_threads = 1

    def set_use_var(self, variables: Sequence[Variable]) -> None:
        """Set the variables of a line of wire text: dense ones first, then those of ids."""
        order = [variable.is_sparse for variable in variables]
        if order != sorted(order):
            raise ConfigError(
                ["set_use_var: dense variables (float32) must precede those of ids (int64)"]
            )
        self._variables = tuple(variables)

    def set_pipe_command(self, command: str) -> None:
        """Send every file through a program; without one, files hold wire text themselves."""
        self._pipe_command = command

    def set_filelist(self, paths: Sequence[str]) -> None:
        """Set the files that this worker reads."""
        self._files = tuple(file for path in paths for file in list_files(str(path)))

    def set_batch_size(self, batch_size: int) -> None:
        """Set the samples of a step."""
        self._batch_size = batch_size

    def set_thread(self, num_threads: int) -> None:
        """Set how many files are read at a time."""
        self._num_threads = num_threads

    @property
    def inputs(self) -> Inputs:
        """Return the features that the batches hold, for a model."""
        return Inputs(
            sparse=tuple(v.name for v in self._variables if v.is_sparse),
            dense={v.name: v.shape for v in self._variables if not v.is_sparse},
        )

    def options(self) -> DatasetOptions:
        """Return the description that our own readers understand."""
        if not self._variables:
            raise ConfigError(["dataset: no variables; call set_use_var"])
        dense = [v for v in self._variables if not v.is_sparse]
        return DatasetOptions(
            name="dataset",
            kind=self.kind,
            data_path="",
            batch_size=self._batch_size,
            sparse=tuple(v.name for v in self._variables if v.is_sparse),
            dense=tuple(DenseSlot(name=v.name, shape=v.shape) for v in dense),
            thread_num=self._num_threads,
            format="wire_text" if self._pipe_command is None else "pipe",
            pipe_command=self._pipe_command,
        )

    def loader(self, *, seed: int) -> Loader:
        """Return a reader of this worker's files."""
        return Loader(self.options(), seed=seed, files=self._files)


class QueueDataset(Dataset):
    """Read again in every pass, by several readers in turn."""

    kind = "QueueDataset"


class InMemoryDataset(Dataset):
    """Read once; samples stay in their order until they are shuffled."""

    kind = "InMemoryDataset"

    def __init__(self) -> None:
        super().__init__()
        self._loaded: Loader | None = None
        self._preloading: Future[Loader] | None = None
        self._num_shuffles = 0

    def load_into_memory(self) -> None:
        """Read all files."""
        self._loaded = self._load(self._files)

    def preload_into_memory(self) -> None:
        """Begin to read the files of the list as it is now; the samples in memory stay meanwhile.

        So the next files are read while a program trains on those before.
        """
        if self._preloading is not None:
            raise RuntimeError("InMemoryDataset: call wait_preload_done before the next preload")
        pool = ThreadPoolExecutor(1, thread_name_prefix="fleetrec-preload")
        self._preloading = pool.submit(self._load, self._files)
        pool.shutdown(wait=False)

    def wait_preload_done(self) -> None:
        """Replace the samples in memory by the preloaded ones."""
        if self._preloading is None:
            raise RuntimeError("InMemoryDataset: call preload_into_memory first")
        preloading, self._preloading = self._preloading, None
        self._loaded = preloading.result()

    def _load(self, files: Sequence[DataFile]) -> Loader:
        loader = Loader(self.options(), seed=0, files=files, shuffle=False)
        loader.load_into_memory()
        return loader

    def local_shuffle(self) -> None:
        """Shuffle the samples of this worker; the n-th shuffle is the same in every run."""
        self._memory().shuffle(seed=0, epoch=self._next_shuffle())

    def global_shuffle(self, fleet: Connected) -> None:
        """Redistribute the samples of all workers at random; every worker must call it."""
        memory = self._memory()
        with fleet.exchange(self.inputs) as exchange:
            memory.shuffle_globally(exchange, seed=0, epoch=self._next_shuffle())

    def get_memory_data_size(self) -> int:
        """Return the number of samples that this worker holds."""
        return len(self._memory())

    def release_memory(self) -> None:
        """Free the memory."""
        self._memory().release()
        self._loaded = None

    def loader(self, *, seed: int) -> Loader:
        """Return what gives the samples in memory."""
        del seed  # the order is that of the last shuffle
        if self._loaded is None:
            self.load_into_memory()
        assert self._loaded is not None
        return self._loaded

    def _memory(self) -> MemoryRows:
        if self._loaded is None:
            raise RuntimeError("InMemoryDataset: call load_into_memory first")
        return self._loaded.load_into_memory()

    def _next_shuffle(self) -> int:
        self._num_shuffles += 1
        return self._num_shuffles


class DatasetFactory:
    """Makes data sets by name."""

    def create_dataset(self, name: DatasetName = "QueueDataset") -> Dataset:
        """Return an empty data set."""
        known = {kind.kind: kind for kind in (QueueDataset, InMemoryDataset)}
        if name not in known:
            raise ConfigError([f"no data set is called {name!r}; known: {', '.join(known)}"])
        return known[name]()
