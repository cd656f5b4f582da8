"""Print what a development venv needs besides torch, for the command line of pip."""

import tomllib
from pathlib import Path


def main() -> None:
    """Print the requirements."""
    config = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = config["project"]
    wanted = [*config["build-system"]["requires"], *project["dependencies"]]
    wanted += [item for extra in project["optional-dependencies"].values() for item in extra]
    wanted += config["dependency-groups"]["dev"]
    print(*(item.replace(" ", "") for item in wanted if not item.startswith("torch")))


if __name__ == "__main__":
    main()
