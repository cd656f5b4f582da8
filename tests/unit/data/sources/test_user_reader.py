"""Readers of the user's own: what they may be written like, and what is said when they fail."""

import sys
import textwrap

import pytest

from fleetrec._native import fingerprint64
from fleetrec.config.job import DatasetOptions
from fleetrec.core.cursor import Cursor
from fleetrec.core.errors import DataError
from fleetrec.data.decode import Decoder
from fleetrec.data.loader import Loader
from fleetrec.data.source import BadRowError
from fleetrec.data.stream import raw_batches
from making_rows import open_source

LINES = "1 10 0.5\n0 20 1.5\n1 30 2.5\n"


def options_for(tmp_path, code, *, data=LINES, class_name="Reader", settings=None, **more):
    (tmp_path / "reader.py").write_text(textwrap.dedent(code))
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "part").write_text(data)
    declared = {"sparse": ("click", "item"), "dense": [{"name": "price", "shape": [1]}]}
    return DatasetOptions.model_validate(
        {
            "name": "data",
            "data_path": str(tmp_path / "data"),
            "batch_size": 2,
            "format": "user_reader",
            "reader": {
                "path": tmp_path / "reader.py",
                "class_name": class_name,
                "settings": settings or {},
            },
            **declared,
            **more,
        }
    )


def decode(options):
    source, part = open_source(options)
    return source.decode(list(source.read(part, offset=0, row=0)))


def check_block(block):
    assert block.ids["click"].values.tolist() == [1, 0, 1]
    assert block.ids["item"].values.tolist() == [10, 20, 30]
    assert block.dense["price"].tolist() == [[0.5], [1.5], [2.5]]


OLD = """
    from paddlerec.core.reader import ReaderBase
    from paddlerec.core.utils import envs

    class {name}(ReaderBase):
        def __init__(self, config):
            super({name}, self).__init__(config)

        def init(self):
            self.scale = envs.get_global_env("hyper_parameters.scale", None, None)
            self.other = envs.get_global_env("other", 7, "hyper_parameters")

        def generate_sample(self, line):
            def reader():
                click, item, price = line.split()
                names = ["click", "item", "price"]
                yield zip(names, [[int(click)], [int(item)], [self.scale * float(price)]])
            return reader
"""


@pytest.mark.parametrize("name", ["Reader", "TrainReader", "EvaluateReader"])
def test_an_old_reader_runs_as_it_is(tmp_path, name):
    code = OLD.replace("{name}", name)
    settings = {"hyper_parameters.scale": 1}
    check_block(decode(options_for(tmp_path, code, class_name=name, settings=settings)))
    assert not any(module.split(".")[0] == "paddlerec" for module in sys.modules)


def test_values_without_names_are_dense_first(tmp_path):
    code = """
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                click, item, price = line.split()
                def samples():
                    yield [[float(price)], [int(click)], [int(item)]]
                return samples
    """
    check_block(decode(options_for(tmp_path, code)))


def test_a_line_may_give_no_sample_or_several(tmp_path):
    code = """
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                def samples():
                    for item in line.split():
                        yield {"item": int(item)} if int(item) else None
                return samples
    """
    options = options_for(tmp_path, code, data="1 2 3\n0\n4\n5 6\n")
    loader = Loader(options, seed=0)
    with loader.epoch(0) as batches:
        ids = [batch.ids["item"].values.tolist() for batch in batches]
    assert ids == [[1, 2], [3, 4], [5, 6]]


def test_a_share_of_the_samples_of_a_line_can_stay(tmp_path):
    code = """
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                return lambda: ({"item": int(item)} for item in line.split())
    """
    data = " ".join(map(str, range(1000))) + "\n" + " ".join(map(str, range(1000, 2000))) + "\n"
    options = options_for(tmp_path, code, data=data, sample_ratio=0.3)
    with Loader(options, seed=0).epoch(0) as batches:
        items = [item for batch in batches for item in batch.ids["item"].values.tolist()]
    assert 500 < len(items) < 700
    assert items == sorted(set(items))


def test_reading_goes_on_between_samples_of_one_line(tmp_path):
    code = """
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                return lambda: ({"item": int(item)} for item in line.split())
    """
    options = options_for(tmp_path, code, data="1 2 3\n4\n5 6\n")
    with Loader(options, seed=0).epoch(0) as batches:
        cursor = next(batches).cursor
    with Loader(options, seed=0).epoch(0, start=cursor) as batches:
        assert [batch.ids["item"].values.tolist() for batch in batches] == [[3, 4], [5, 6]]


BATCHES = """
    from pathlib import Path

    class Reader:
        def generate_batch_from_trainfiles(self, files):
            def batches():
                rows = [x.split() for path in files for x in Path(path).read_text().splitlines()]
                samples = [[[float(p)], [int(c)], [int(i)]] for c, i, p in rows]
                yield samples[:1]
                yield []
                yield samples[1:]
            return batches
"""


def test_batches_of_the_reader_stay_as_they_are(tmp_path):
    options = options_for(tmp_path, BATCHES, batch_size=2)
    with Loader(options, seed=0).epoch(0) as batches:
        assert [batch.ids["item"].values.tolist() for batch in batches] == [[10], [20, 30]]


def test_reading_goes_on_behind_a_batch_of_the_reader(tmp_path):
    source, part = open_source(options_for(tmp_path, BATCHES))
    decoder = Decoder(source=source, seed=0)
    first = next(raw_batches(source, [part], batch_size=2, start=Cursor()))
    rest = list(raw_batches(source, [part], batch_size=2, start=first.end))
    assert [decoder(raw, epoch=0).block.ids["item"].values.tolist() for raw in rest] == [[20, 30]]


def test_batches_may_be_arrays(tmp_path):
    code = """
        import numpy as np
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                click, item, price = line.split()
                sample = [("x", [float(price)]), ("y", [int(click)]), ("z", [int(item)])]
                return lambda: iter([sample])

            def batch_tensor_creator(self, sample_reader):
                def batches():
                    columns = list(zip(*sample_reader()))
                    yield [np.array(column) for column in columns]
                return batches
    """
    check_block(decode(options_for(tmp_path, code)))


def test_a_function_reads_files(tmp_path):
    code = """
        def read(path):
            with open(path) as lines:
                for line in lines:
                    click, item, price = line.split()
                    yield {"click": int(click), "item": [int(item)], "price": float(price)}
    """
    check_block(decode(options_for(tmp_path, code)))


def test_a_class_reads_record_batches(tmp_path):
    code = """
        from pathlib import Path

        import pyarrow as pa

        class Reader:
            def read(self, path):
                rows = [line.split() for line in Path(path).read_text().splitlines()]
                clicks, items, prices = zip(*rows)
                yield pa.record_batch({
                    "click": [int(c) for c in clicks],
                    "item": [[int(i)] for i in items],
                    "price": [float(p) for p in prices],
                })
    """
    check_block(decode(options_for(tmp_path, code)))


def test_text_becomes_ids_as_in_every_format(tmp_path):
    code = """
        def read(path):
            yield {"item": ["red", "7", ""], "click": 7}
            yield {"item": b"red"}
            yield {"item": "", "click": [3, "red"]}
    """
    block = decode(options_for(tmp_path, code, padding=5))
    red = fingerprint64("red") - 2**64 * (fingerprint64("red") >= 2**63)
    assert block.ids["item"].values.tolist() == [red, 7, red, 5]
    assert block.ids["item"].lengths().tolist() == [2, 1, 1]
    assert block.ids["click"].values.tolist() == [7, 5, 3, red]


def test_features_are_told_from_the_first_sample(tmp_path):
    code = """
        def read(path):
            yield {"a": 1, "b": [2, 3], "x": [0.5, 1.5], "y": 2.5}
    """
    source, _ = open_source(options_for(tmp_path, code, sparse=(), dense=()))
    assert source.inputs.sparse == ("a", "b")
    assert source.inputs.dense == {"x": (2,), "y": (1,)}
    unnamed = "def read(path):\n    yield [[1], [0.5]]\n"
    source, _ = open_source(options_for(tmp_path, unnamed, sparse=(), dense=()))
    assert (source.inputs.sparse, source.inputs.dense) == (("0",), {"1": (1,)})


def test_files_beside_the_reader_can_be_imported_and_do_not_stay(tmp_path):
    (tmp_path / "beside_a_reader.py").write_text("FACTOR = 1\n")
    code = """
        from pathlib import Path

        import beside_a_reader

        def read(path):
            for line in Path(path).read_text().splitlines():
                click, item, price = line.split()
                yield {"click": int(click) * beside_a_reader.FACTOR, "item": int(item),
                       "price": float(price)}
    """
    check_block(decode(options_for(tmp_path, code)))
    assert "beside_a_reader" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_processes_give_the_same_batches(tmp_path):
    code = OLD.replace("{name}", "Reader")
    data = "".join(f"{i % 2} {i} {i}.5\n" for i in range(40))
    ids = []
    for thread_num in (1, 2):
        settings = {"hyper_parameters.scale": 1}
        options = options_for(
            tmp_path, code, data=data, settings=settings, thread_num=thread_num, batch_size=8
        )
        with Loader(options, seed=0).epoch(0) as batches:
            ids.append([batch.ids["item"].values.tolist() for batch in batches])
    assert ids[0] == ids[1]
    assert [item for batch in ids[0] for item in batch] == list(range(40))


def test_an_error_in_the_reader_names_data_and_code(tmp_path):
    code = """
        from fleetrec.reader import ReaderBase

        class Reader(ReaderBase):
            def generate_sample(self, line):
                def samples():
                    yield {"item": int(line.split()[1])}
                return samples
    """
    with pytest.raises(BadRowError) as caught:
        decode(options_for(tmp_path, code, data="1 2\n3 x\n"))
    assert caught.value.row == 1
    part, reader = tmp_path / "data" / "part", tmp_path / "reader.py"
    assert str(caught.value) == (
        f"{part}:2: {reader}:7: ValueError: invalid literal for int() with base 10: 'x'"
    )


def test_an_error_in_a_reader_of_files_names_the_sample(tmp_path):
    code = "def read(path):\n    yield {'item': 1}\n    raise KeyError('price')\n"
    with pytest.raises(DataError, match=r"part: after sample 0: .*reader\.py:3: KeyError: 'price'"):
        decode(options_for(tmp_path, code))


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ("{'item': 1.5}", "feature 'item' is sparse: expected integers .*, got 1.5"),
        ("{'item': 2**64}", "feature 'item' is sparse: .*got 18446744073709551616"),
        ("{'price': [1.0, 2.0]}", r"feature 'price' is dense: expected 1 finite .* \[1.0, 2.0\]"),
        ("{'price': float('nan')}", "feature 'price' is dense: expected 1 finite numbers, got nan"),
        ("{'price': 'cheap'}", "feature 'price' is dense: .*got 'cheap'"),
        ("[[1]]", r"expected 3 lists of values \(price click item\), got 1"),
        ("'text'", "expected a dict or a list of values, got 'text'"),
        ("[('item', [1]), ('item', [2])]", "a feature comes twice"),
    ],
)
def test_a_sample_that_does_not_fit_is_named(tmp_path, sample, reason):
    code = f"def read(path):\n    yield {{'item': 1}}\n    yield {sample}\n"
    with pytest.raises(BadRowError, match=rf"part: sample 2 of .*reader\.py: {reason}") as caught:
        decode(options_for(tmp_path, code))
    assert caught.value.row == 1


def test_the_first_of_two_bad_samples_is_named(tmp_path):
    code = "def read(path):\n    yield {'price': 'x'}\n    yield {'item': 0.5}\n    yield 5\n"
    with pytest.raises(BadRowError, match="sample 1"):
        decode(options_for(tmp_path, code))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module\n", r"reader\.py:1: ModuleNotFoundError"),
        ("def broken(:\n", r"reader\.py:1: SyntaxError"),
        ("class TrainReader: pass\n", "no class or function is called 'Reader'.*: TrainReader$"),
        ("class Reader:\n    def init(self):\n        1 / 0\n", r"reader\.py:3: ZeroDivisionError"),
        ("class Reader: pass\n", "Reader has none of the methods generate_sample"),
        ("raise SystemExit(3)\n", r"reader\.py:1: SystemExit: 3"),
    ],
)
def test_a_reader_that_cannot_be_loaded_is_explained(tmp_path, code, reason):
    with pytest.raises(DataError, match=reason) as caught:
        open_source(options_for(tmp_path, code))
    assert "\n" not in str(caught.value)
