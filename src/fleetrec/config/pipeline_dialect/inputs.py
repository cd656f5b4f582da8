"""How the data of a pipeline is read: formats, separators, paths."""

from collections.abc import Iterable
from types import MappingProxyType

from fleetrec.config.document import Location
from fleetrec.config.job import CriteoFiles, RtpOptions, TextTableOptions
from fleetrec.config.pipeline_dialect.pipeline import BinaryInput, Pipeline
from fleetrec.config.pipeline_dialect.streams import stream_input
from fleetrec.config.problems import Problems

CSV_INPUTS = ("CSVInput", "CSVInputV2", "CSVInputEx", "KafkaInput")
UNQUOTED_INPUTS = ("CSVInputEx", "KafkaInput")
RTP_INPUTS = ("RTPInput", "RTPInputV2")
OTHER_INPUTS = ("TFRecordInput", "BatchTFRecordInput", "CriteoInput")
FORMATS = MappingProxyType(
    {
        **dict.fromkeys(CSV_INPUTS, "csv"),
        **dict.fromkeys(RTP_INPUTS, "rtp"),
        **dict.fromkeys(("ParquetInput", "ParquetInputV2", "ParquetInputV3"), "parquet"),
        **dict.fromkeys(("TFRecordInput", "BatchTFRecordInput"), "example_columns"),
        "CriteoInput": "criteo_binary",
    }
)
PARQUET_INPUTS = ("ParquetInput", "ParquetInputV2", "ParquetInputV3")


def text_table(pipeline: Pipeline, fields: Iterable[str]) -> TextTableOptions:
    """Return how lines of text are cut into columns, which are called ``fields``."""
    data = pipeline.data_config
    columns = tuple(fields)
    if data.input_type in RTP_INPUTS:
        others = (name for name in columns if name not in data.label_fields)
        columns = (*data.label_fields, *others)
    is_unquoted = data.input_type in (*UNQUOTED_INPUTS, *RTP_INPUTS)
    return TextTableOptions(
        separator=data.separator,
        quote="" if is_unquoted else '"',
        columns=() if data.with_header else columns,
        list_separator="",
    )


def rtp_options(pipeline: Pipeline, problems: Problems) -> RtpOptions | None:
    """Return the outer columns of RTP text; the features are in the last chosen one."""
    data = pipeline.data_config
    if data.input_type not in RTP_INPUTS:
        return None
    at: Location = ("data_config", "selected_cols")
    indexes = [word.strip() for word in data.selected_cols.split(",") if word.strip()]
    if not all(word.isdecimal() for word in indexes) or len(indexes) < 1:
        text = 'expected indexes of columns, the last one of the features, as in "0,3"'
        problems.note(at, f"{text}, got {data.selected_cols!r}")
        return None
    if len(indexes) - 1 != len(data.label_fields):
        problems.note(
            at,
            f"expected {len(data.label_fields)} indexes of label_fields and one of the "
            f"features, got {data.selected_cols!r}",
        )
        return None
    selected = tuple(map(int, indexes))
    return RtpOptions(separator=data.rtp_separator, selected=selected)


def criteo_files(pipeline: Pipeline, part: str) -> CriteoFiles | None:
    """Return the binary files beside those of labels."""
    files: BinaryInput | None = getattr(pipeline, f"binary_{part}_input")
    if files is None:
        return None
    return CriteoFiles(dense_paths=files.dense_path, category_paths=files.category_path)


def input_path(pipeline: Pipeline, part: str) -> tuple[str, Location]:
    """Return the path of training or evaluation data, empty if there is none, and its place."""
    stream = stream_input(pipeline, part)
    if stream is not None:
        kafka = getattr(pipeline, f"kafka_{part}_input")
        return str(stream.url), (f"{part}_input_path" if kafka is None else f"kafka_{part}_input",)
    binary: BinaryInput | None = getattr(pipeline, f"binary_{part}_input")
    if binary is not None:
        return ",".join(binary.label_path), (f"binary_{part}_input",)
    for name in (f"{part}_input_path", f"parquet_{part}_input"):
        path = getattr(pipeline, name)
        if path:
            return str(path), (name,)
    return "", (f"{part}_input_path",)
