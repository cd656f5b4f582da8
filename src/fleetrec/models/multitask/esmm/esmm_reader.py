"""Lines of Ali-CCP: ``id,click,conversion,field:feature,field:feature,...``."""

from collections.abc import Callable, Iterator

from fleetrec.reader import ReaderBase, Sample

FIELDS = (
    *("101", "109_14", "110_14", "127_14", "150_14", "121", "122", "124", "125", "126", "127"),
    *("128", "129", "205", "206", "207", "210", "216", "508", "509", "702", "853", "301"),
)


class Reader(ReaderBase):
    """A field that a line lacks has the id 0; fields that are not known are passed over."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample]]:
        """Yield one sample per line."""

        def samples() -> Iterator[Sample]:
            _, click, conversion, *features = line.strip().split(",")
            ids: dict[str, list[int]] = {field: [] for field in FIELDS}
            for feature in features:
                field, _, value = feature.partition(":")
                if field in ids:
                    ids[field].append(int(value))
            clicked = int(click)
            yield {
                "ctr": clicked,
                "ctcvr": clicked * int(conversion),
                **{field: values or [0] for field, values in ids.items()},
            }

        return samples
