"""The messages of a stream up to now, the same for all processes."""

import json

from fleetrec.config.job import DatasetOptions
from fleetrec.core.stream_url import is_stream
from fleetrec.data.files import DataFile, list_files
from fleetrec.parallel.group import Group
from fleetrec.parallel.on_chief import on_chief


def shared_files(options: DatasetOptions, group: Group, *, key: str) -> tuple[DataFile, ...] | None:
    """Return the files that the chief finds, if a path of the data set is a stream.

    Processes that ask a moment later find more messages. None: files, which every process lists.
    """
    paths = (options.data_path, *options.more_paths)
    if not any(map(is_stream, paths)):
        return None
    client = options.stream_options

    def find() -> str:
        found = [file for path in paths for file in list_files(path, client)]
        return json.dumps([(file.path, file.name, file.num_bytes) for file in found])

    return tuple(
        DataFile(path=path, name=name, num_bytes=num_bytes, options=client)
        for path, name, num_bytes in json.loads(on_chief(group, find, key=key, pass_index=None))
    )
