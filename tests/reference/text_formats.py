"""Slow twins of the native parsers of wire text, libsvm and libffm text."""

from collections.abc import Sequence

from reference.slot_text import to_float, to_id


class TwinFormatError(ValueError):
    """The first bad line, from 0."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


def lines_of(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def tokens_of(line: bytes) -> list[bytes]:
    """Tokens are separated by blanks and tabs; other white space counts at the ends only."""
    return [token for token in line.strip().replace(b"\t", b" ").split(b" ") if token]


def parse_wire(
    text: bytes, *, dense: Sequence[tuple[str, int]], sparse: Sequence[str]
) -> list[dict[str, list[float]]]:
    samples = []
    for number, line in enumerate(lines_of(text)):
        try:
            samples.append(_wire_sample(tokens_of(line), dict(dense), sparse))
        except (ValueError, IndexError):
            raise TwinFormatError(number) from None
    return samples


def _wire_sample(tokens, dense, sparse):
    sample = {}
    at = 0
    for name in (*dense, *sparse):
        count = to_id(tokens[at])
        if count < 0 or (name in dense and count not in (0, dense[name])):
            raise ValueError(count)
        if at + 1 + count > len(tokens):
            raise IndexError(count)
        values = tokens[at + 1 : at + 1 + count]
        sample[name] = [to_float(v) if name in dense else to_id(v) for v in values]
        at += 1 + count
    if at != len(tokens):
        raise ValueError("more tokens than slots")
    return sample


def parse_svm(text: bytes, *, fields: Sequence[str] | None) -> list[dict[str, list[float]]]:
    """Samples with ``label``, and ids and weights by field; one field, ``f``, if there are none."""
    samples = []
    for number, line in enumerate(lines_of(text)):
        try:
            samples.append(_svm_sample(tokens_of(line), fields))
        except ValueError:
            raise TwinFormatError(number) from None
    return samples


def _svm_sample(tokens, fields):
    if not tokens:
        return {}
    sample = {"label": [to_id(tokens[0])]}
    for token in tokens[1:]:
        if token.startswith(b"#"):
            break
        parts = token.split(b":")
        field = "f"
        if fields is not None:
            field = parts.pop(0).decode(errors="replace")
            if not field:
                raise ValueError(token)
        index, value = parts
        if fields is None or field in fields:
            sample.setdefault(field, []).append(to_id(index))
            sample.setdefault(f"{field} weights", []).append(to_float(value))
        else:
            to_id(index), to_float(value)
    return sample
