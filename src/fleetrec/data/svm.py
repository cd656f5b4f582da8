"""Common parts of libsvm and libffm: a label, then ids with weights."""

from fleetrec._native import SvmParser
from fleetrec.config.job import DatasetOptions
from fleetrec.core.errors import DataError


def build_svm_parser(options: DatasetOptions, *, has_fields: bool) -> SvmParser:
    """Return a parser whose label is the one dense slot, or else the first sparse slot."""
    is_dense_label = bool(options.dense)
    slots = options.sparse if is_dense_label else options.sparse[1:]
    if is_dense_label and (len(options.dense) > 1 or options.dense[0].shape != (1,)):
        got = " ".join(f"{slot.name}:{list(slot.shape)}" for slot in options.dense)
        raise DataError(
            f"data set {options.name}: only the label can be dense: expected dense_slots "
            f"'label:1', got {got!r}"
        )
    if not slots or (len(slots) > 1 and not has_fields):
        example = "label 0 1 2' (0, 1 and 2 being fields)" if has_fields else "label features'"
        raise DataError(
            f"data set {options.name}: expected sparse_slots '{example}, "
            f"got {' '.join(options.sparse)!r}"
        )
    return SvmParser(
        label=options.dense[0].name if is_dense_label else options.sparse[0],
        is_dense_label=is_dense_label,
        slots=slots,
        has_fields=has_fields,
        padding=options.padding,
    )
