import asyncio

import pytest

from npu_operator.web import MAX_REQUEST_BYTES, Answer, WebServer


async def ask(address, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


def served(request: bytes) -> bytes:
    async def main():
        server = WebServer({"/healthz": lambda: Answer("ok\n")}, host="127.0.0.1", port=0)
        await server.start()
        try:
            async with asyncio.timeout(30):
                return await ask(server.address, request)
        finally:
            await server.close()

    return asyncio.run(main())


def test_a_known_path_is_answered():
    answer = served(b"GET /healthz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok\n")


def test_an_unknown_path_tells_which_are_known():
    answer = served(b"GET /health HTTP/1.1\r\n\r\n")
    assert b" 404 " in answer
    assert b"/healthz" in answer


def test_other_methods_are_refused():
    assert b" 405 " in served(b"POST /healthz HTTP/1.1\r\n\r\n")


def test_an_endless_request_is_cut_off():
    assert served(b"GET /" + b"x" * 3 * MAX_REQUEST_BYTES + b"\r\n\r\n") == b""


def test_a_port_in_use_is_one_clear_sentence():
    async def main():
        first = WebServer({}, host="127.0.0.1", port=0)
        await first.start()
        port = first.address[1]
        try:
            with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}.*choose another with --listen"):
                await WebServer({}, host="127.0.0.1", port=port).start()
        finally:
            await first.close()

    asyncio.run(main())
