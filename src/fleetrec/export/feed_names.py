"""Checks of the names of inputs and outputs that a job asks an inference model to have."""

from collections.abc import Sequence

from fleetrec.models.base import Model


def name_problems(
    model: Model,
    *,
    feeds: Sequence[str],
    fetches: Sequence[str],
    needed: Sequence[str],
    outputs: Sequence[str],
    dense: Sequence[str],
) -> list[str]:
    """Return what is wrong with the names of inputs and outputs."""
    labels = model.label_names()
    problems = [
        f"save_inference_fetch_varnames: the model has no output {name!r}; known: "
        f"{', '.join(outputs)}"
        for name in fetches
        if name not in outputs
    ]
    problems += [
        f"save_inference_feed_varnames: {name!r} is not an input of the model; known: "
        f"{', '.join(needed)}"
        for name in feeds
        if name not in needed and name not in labels
    ]
    lacking = [name for name in needed if feeds and name not in feeds]
    if lacking:
        problems.append(
            f"save_inference_feed_varnames: the model also needs {', '.join(lacking)} "
            "(leave the list empty to feed all)"
        )
    problems += [
        f"slot {name!r}: an input of the exported graph has this name; rename the slot"
        for name in dense
        if name in model.embedding_collection().zeros(1, max_length=1)
    ]
    return problems
