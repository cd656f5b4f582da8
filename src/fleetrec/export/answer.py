"""What an inference model answers. No torch."""

import dataclasses

from fleetrec.export.id_lists import Array
from fleetrec.export.manifest import ModelManifest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Outputs by name, and the manifest of the version that computed them."""

    outputs: dict[str, Array]
    manifest: ModelManifest
