"""The programs that layers record in, which are those of the process."""

import contextlib
from collections.abc import Iterator

from fleetrec.fluid.graph import Program


class Programs:
    """The current main program and its startup program."""

    def __init__(self) -> None:
        self.main = Program()
        self.startup = Program()

    @contextlib.contextmanager
    def use(self, main: Program, startup: Program | None = None) -> Iterator[None]:
        """Record layers in other programs while the block runs."""
        before = (self.main, self.startup)
        self.main, self.startup = main, startup or self.startup
        try:
            yield
        finally:
            self.main, self.startup = before

    def default_main_program(self) -> Program:
        """Return the program that layers record in."""
        return self.main

    def default_startup_program(self) -> Program:
        """Return the program that stands for the first weights."""
        return self.startup


_PROGRAMS = Programs()

default_main_program = _PROGRAMS.default_main_program
default_startup_program = _PROGRAMS.default_startup_program
program_guard = _PROGRAMS.use
