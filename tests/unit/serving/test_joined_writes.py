"""Writes of one turn of the event loop are sent together."""

import asyncio

from fleetrec.serving.joined_writes import JoinedWrites


class Sink(asyncio.Transport):
    """A transport that lists what is done to it."""

    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.done = []

    def write(self, data):
        self.done.append(bytes(data))

    def close(self):
        self.done.append("closed")


def run(work):
    async def main():
        sink = Sink()
        await work(JoinedWrites(sink, asyncio.get_running_loop()))
        return sink.done

    return asyncio.run(main())


def test_what_is_written_in_one_turn_is_one_write():
    async def work(transport):
        for part in (b"head", b"", b"body"):
            transport.write(part)
        await asyncio.sleep(0)
        transport.write(b"next")
        await asyncio.sleep(0)

    assert run(work) == [b"headbody", b"next"]


def test_closing_sends_first():
    async def work(transport):
        transport.write(b"last")
        transport.close()
        await asyncio.sleep(0)

    assert run(work) == [b"last", "closed"]


def test_the_rest_is_that_of_the_transport():
    async def work(transport):
        assert transport.get_extra_info("peername") == ("127.0.0.1", 1)

    assert run(work) == []
