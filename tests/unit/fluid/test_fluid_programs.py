"""The programs that layers record in."""

from fleetrec import fluid


def test_a_guard_replaces_the_programs_while_its_block_runs():
    before = (fluid.default_main_program(), fluid.default_startup_program())
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        fluid.layers.data("x", shape=[1])
        assert fluid.default_main_program() is main
        assert fluid.default_startup_program() is startup
    assert list(main.variables) == ["x"]
    assert (fluid.default_main_program(), fluid.default_startup_program()) == before
