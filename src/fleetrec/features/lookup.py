"""Values that a map of one column has for the key in another."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetrec.features.column import Column, Texts
from fleetrec.features.declared import DeclaredFeature
from fleetrec.features.values import IdLists, to_offsets


class LookupFeature(DeclaredFeature, name="lookup"):
    """The ids of the values whose key equals that of the row, at most ``max_length``.

    The first column has the key, the second pairs such as ``a:1|b:2``.
    """

    def transform(self, columns: Mapping[str, Column]) -> IdLists:
        """Return the ids."""
        options = self.options
        key_name, map_name = options.columns
        keys, column = columns[key_name].texts(), columns[map_name]
        pairs = column.texts(separator=options.separator)
        mark = (options.weight_separator or ":").encode()
        split = pc.split_pattern(pairs.values, mark, max_splits=1)
        counts = np.asarray(pc.list_value_length(split).to_numpy(zero_copy_only=False))
        wrong = np.flatnonzero(counts != 2)
        if len(wrong):
            at = int(wrong[0])
            text = f"expected a key and a value separated by {mark.decode()!r}"
            raise column.bad(pairs.row_of(at), pairs.values[at].as_py(), text)
        rows = np.repeat(np.arange(len(column)), pairs.lengths())
        has_key = keys.lengths() > 0
        place = np.where(has_key, keys.offsets[:-1], -1)[rows]
        wanted = keys.values.take(pa.array(place, mask=place < 0))
        equal = pc.equal(pc.list_element(split, 0), wanted).fill_null(pa.scalar(value=False))
        is_there = np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
        lengths = np.bincount(rows[is_there], minlength=len(column))
        found = Texts(
            values=pc.list_element(split, 1).cast(pa.large_binary()).filter(equal),
            offsets=to_offsets(lengths),
        )
        if options.max_length is not None:
            found = found.first(options.max_length)
        return IdLists(ids=self._buckets.ids(found, column), offsets=found.offsets)
