"""Which rows of a table go to serving models."""

from pydantic import Field

from fleetrec.config.options import Options


class ServingOptions(Options):
    """Which rows of a table serving models hold; by default all.

    The score of a row is ``nonclk_coeff`` per impression without a click and ``click_coeff`` per
    click. Rows with a score below ``base_threshold``, and rows that were not seen for more than
    ``delta_keep_days`` days of event time, are left out. A delta also leaves out rows whose changes
    since the last publication, counted as a score, are below ``delta_threshold``: they stay as
    they are.
    """

    nonclk_coeff: float = Field(default=0.1, ge=0)
    click_coeff: float = Field(default=1.0, ge=0)
    base_threshold: float = Field(default=0.0, ge=0)
    delta_threshold: float = Field(default=0.0, ge=0)
    delta_keep_days: int | None = Field(default=None, ge=0)


def serving_problems(options: ServingOptions, *, has_delta_score: bool) -> dict[str, str]:
    """Return what is wrong with the options of a table, by key.

    ``has_delta_score``: the table counts changes since the last publication.
    """
    if options.delta_threshold > 0 and not has_delta_score:
        return {
            "delta_threshold": "expected 0: the table does not count changes since the last "
            f"publication, got {options.delta_threshold:g}"
        }
    return {}
