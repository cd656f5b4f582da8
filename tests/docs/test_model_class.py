"""The document on model classes shows a diff that works, and that touches one folder."""

import json
import re
from pathlib import Path

from fleetrec.cli.process import run_process
from fleetrec.config.pipeline_dialect.decode import Changes, decode_pipeline
from fleetrec.core.place import Place
from fleetrec.models.pipeline_classes import pipeline_classes
from fleetrec.train.run_folder import RunFolder
from making_pipelines import ALL, model_config, write_data, write_pipeline

DOCUMENT = Path(__file__).parents[2] / "docs" / "easyrec-model-class.md"


def test_a_model_class_is_one_file(tmp_path):
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (target,) = re.findall(r"^\+\+\+ b/src/fleetrec/models/(.*)$", diff, re.MULTILINE)
    lines = diff.partition("@@ -0,0 ")[2].splitlines()[1:]
    assert all(line.startswith("+") for line in lines)
    assert f"+1,{len(lines)} @@" in diff
    file = tmp_path / "models" / target
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{line[1:]}\n" for line in lines))

    classes = {**pipeline_classes(), **pipeline_classes(tmp_path / "models")}
    model = model_config(
        "AutoInt", "autoint { multi_head_num: 2 multi_head_size: 4 }", groups={"all": ALL}
    )
    pipeline = write_pipeline(tmp_path, model, paths=write_data(tmp_path, num_train=2000))
    decoded = decode_pipeline(pipeline, classes=classes, changes=Changes(), kind="train")
    folder = RunFolder(path=Path(decoded.model_dir))
    run_process(decoded.job.runs[0], Place(), folder=folder, resume=False)
    result = json.loads((folder.path / "eval_result.txt").read_text())
    assert result["auc"] > 0.75
