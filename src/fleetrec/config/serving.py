"""Which rows of a table go to serving models."""

from pydantic import Field

from fleetrec.config.options import Options


class ServingOptions(Options):
    """Which rows of a table serving models hold; by default all.

    The score of a row is ``nonclk_coeff`` per impression without a click and ``click_coeff`` per
    click. Rows with a score below ``base_threshold``, and rows that were not seen for more than
    ``delta_keep_days`` days of event time, are left out. A delta also leaves out rows whose score
    has grown by less than ``delta_threshold`` since they were last published: they stay as they
    are until it has.
    """

    nonclk_coeff: float = Field(default=0.1, ge=0)
    click_coeff: float = Field(default=1.0, ge=0)
    base_threshold: float = Field(default=0.0, ge=0)
    delta_threshold: float = Field(default=0.0, ge=0)
    delta_keep_days: int | None = Field(default=None, ge=0)
