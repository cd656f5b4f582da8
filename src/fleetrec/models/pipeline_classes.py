"""The model classes that pipelines can name, found by their files."""

from pathlib import Path

from fleetrec.config.pipeline_dialect.decode import ModelClass
from fleetrec.config.pipeline_dialect.plain import Shape
from fleetrec.core.errors import ModelError
from fleetrec.models.group_model import GroupModel
from fleetrec.models.load import load_model_class

ZOO = Path(__file__).parent


def pipeline_classes(folder: Path = ZOO) -> dict[str, ModelClass]:
    """Return those whose files lie in ``folder``, by name."""
    found = {}
    for path in sorted(folder.glob("*/*/pipeline.py")):
        model = load_model_class(path)
        if not issubclass(model, GroupModel):
            raise ModelError(f"{path}: expected a class Model(GroupModel)")
        message = Shape(model.Config.model_fields[model.message]).message
        assert message is not None, path
        found[model.model_class] = ModelClass(
            name=model.model_class,
            path=path,
            options=model.Config,
            field=model.message,
            message=message,
        )
    return found
