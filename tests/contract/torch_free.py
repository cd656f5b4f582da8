"""Predicts where torch cannot be imported and no file of a model can be opened.

A request is a line of JSON: a model folder, a file of feeds and columns, and one for the answers,
which are those from ids (``ids/<output>``) and from raw columns (``raw/<output>``), the same of
every tower (``<tower>.ids/<output>``), and, if the model has items, those that it recalls.

usage: python -u torch_free.py FORBIDDEN_FOLDER
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np


def forbid(folder: str) -> None:
    """Refuse torch, and files of ``folder``, compiled or not, for the rest of the process."""

    def refuse(event: str, arguments: tuple) -> None:
        if event == "import" and arguments[0].partition(".")[0] == "torch":
            raise ImportError("torch is not available here")
        if event == "open" and str(arguments[0]).startswith(folder):
            raise FileNotFoundError(f"{arguments[0]} is not available here")

    sys.addaudithook(refuse)


def check_forbidden() -> None:
    """Fail if torch, or a model of the zoo, can be imported after all."""
    for name in ("torch", "fleetrec.models.rank.dnn.model"):
        try:
            importlib.import_module(name)
        except (ImportError, FileNotFoundError):
            continue
        raise AssertionError(f"{name} can be imported")


def answer(request: dict) -> None:
    """Predict all samples of a request from ids and from raw columns."""
    from fleetrec.export.predictor import Predictor

    predictor = Predictor(request["model"], num_threads=1)
    given = json.loads(Path(request["inputs"]).read_text())
    by_ids = predictor.predict(given["feeds"], weights=given["weights"])
    found = {f"ids/{n}": value for n, value in by_ids.items()}
    found |= {f"raw/{n}": value for n, value in predictor.predict_raw(given["columns"]).items()}
    for name in predictor.towers:
        tower = predictor.tower(name)
        feeds = {n: given["feeds"][n] for n in tower.feeds}
        weights = {n: one for n, one in given["weights"].items() if n in feeds}
        by_ids = tower.predict(feeds, weights=weights)
        found |= {f"{name}.ids/{n}": value for n, value in by_ids.items()}
        by_columns = tower.predict_raw(given["columns"])
        found |= {f"{name}.raw/{n}": value for n, value in by_columns.items()}
    if predictor.items is not None:
        from fleetrec.export.retriever import Retriever

        recalled = Retriever(predictor).recall(given["columns"], topk=request["topk"])
        found |= {"recalled/ids": recalled.ids, "recalled/scores": recalled.scores}
    np.savez(request["answers"], **found)


def main() -> None:
    """Answer until the input ends."""
    forbid(sys.argv[1])
    check_forbidden()
    for line in sys.stdin:
        try:
            answer(json.loads(line))
            said = "done"
        except Exception as error:  # noqa: BLE001 (the test shows it)
            said = json.dumps(f"{type(error).__name__}: {error}")
        sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
