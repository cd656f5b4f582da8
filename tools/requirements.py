"""Print what a development venv needs besides torch, for the command line of pip."""

import tomllib
from pathlib import Path

# Large: what a benchmark is compared with, and what `make test-slow` installs.
LEFT_OUT = {"fbgemm", "ray", "s3"}


def main() -> None:
    """Print the requirements."""
    config = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = config["project"]
    wanted = [*config["build-system"]["requires"], *project["dependencies"]]
    extras = project["optional-dependencies"]
    wanted += [item for name in extras if name not in LEFT_OUT for item in extras[name]]
    wanted += config["dependency-groups"]["dev"]
    print(*(item.replace(" ", "") for item in wanted if not item.startswith("torch")))


if __name__ == "__main__":
    main()
