"""One worker that reads its share: each batch is written down with the cursor behind it."""

import json
import os
import sys
import time
from pathlib import Path

from fleetrec.config.job import DatasetOptions
from fleetrec.core.cursor import Cursor
from fleetrec.data.loader import Loader
from fleetrec.data.plan import DataShard


def main() -> None:
    data, ledger, index, count, kind, pause_s = sys.argv[1:]
    options = DatasetOptions(
        name="rows",
        kind=kind,
        data_path=data,
        batch_size=10,
        sparse=("click", "id"),
        thread_num=2,
        shuffle_rows=50,
    )
    loader = Loader(options, seed=0, shard=DataShard(index=int(index), count=int(count)))
    written = Path(ledger).read_text().splitlines() if Path(ledger).exists() else []
    start = Cursor.from_dict(json.loads(written[-1])["cursor"]) if written else None
    with Path(ledger).open("a") as stream, loader.epoch(0, start=start) as batches:
        for batch in batches:
            entry = {
                "ids": batch.ids["id"].values.tolist(),
                "cursor": batch.cursor.to_dict(),
            }
            stream.write(json.dumps(entry) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
            time.sleep(float(pause_s))


main()
