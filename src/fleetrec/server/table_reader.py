"""Client of ``fleetrec serve-table`` for use in your own programs."""

# Shape suffixes: N ids.

from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fleetrec.core.errors import ConfigError
from fleetrec.embedding.remote_lookup import Rows
from fleetrec.server.client import ClientOptions, ServerClient
from fleetrec.server.wire import Kind, Message


class TableReader:
    """Looks up rows on a server that holds whole tables, such as ``fleetrec serve-table``.

    Args:
        endpoint: host:port of the server.
        token: The server's FLEETREC_TOKEN.
        authority: Root certificates (PEM), if the server uses TLS.
        give_up_s: How long to retry without an answer.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        token: str | None = None,
        authority: Path | None = None,
        give_up_s: float = 30.0,
    ) -> None:
        options = ClientOptions(
            token=token, authority=authority, deadline_s=give_up_s, give_up_s=give_up_s
        )
        self._client = ServerClient(endpoint, options)
        tables = self._client.call(Message(kind=Kind.STATS)).json()["model"]["tables"]
        self.dims: dict[str, int] = {table["name"]: table["dim"] for table in tables}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, table: str, ids_N: npt.ArrayLike) -> Rows:
        """Return rows and a mask of ids that have one; the other rows are zeros."""
        if table not in self.dims:
            known = ", ".join(self.dims)
            raise ConfigError([f"no table is called {table!r}; the server has {known}"])
        wanted_N = np.ascontiguousarray(ids_N, np.int64)
        nothing = np.zeros(0, np.int64)
        ids = [wanted_N if name == table else nothing for name in self.dims]
        no_dense = np.zeros(2, np.uint64)
        answer = self._client.call(Message(kind=Kind.PULL, arrays=[no_dense, *ids]))
        index = 1 + 2 * list(self.dims).index(table)
        return Rows(
            rows_ND=answer.array(index, np.float32, columns=self.dims[table]),
            is_there_N=answer.array(index + 1, np.uint8).astype(bool),
        )

    def stats(self) -> dict[str, dict[str, Any]]:
        """Return statistics of every table, such as rows and bytes."""
        found: dict[str, dict[str, Any]] = self._client.call(Message(kind=Kind.STATS)).json()
        return found["tables"]

    def close(self) -> None:
        """Hang up."""
        self._client.close()
