"""Requests over real sockets: who is let in, what is noticed, what is kept open."""

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from makeway.client.credentials import Credential, Fixed, TokenFile
from makeway.client.http import HttpTransport, Trust
from makeway.client.transport import Call, Unreachable

GET = Call(method="GET", path="/api")
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address while it lasts."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    scheme = "http" if tls is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(transport: HttpTransport, call: Call = GET) -> tuple[int, bytes]:
    async with transport.send(call) as answer:
        return answer.code, await answer.body()


def test_who_is_not_let_in_shows_the_renewed_token(tmp_path: Path) -> None:
    path, seen = tmp_path / "token", list[tuple[str, str]]()

    async def handler(request: web.BaseRequest) -> web.Response:
        shown = request.headers["Authorization"]
        seen.append((request.method, shown))
        path.write_text("new")
        return web.Response(status=200 if shown == "Bearer new" else 401)

    async def story() -> None:
        path.write_text("old")
        async with serving(handler) as address:
            transport = HttpTransport(address, source=TokenFile(path), trust=Trust())
            code, _ = await ask(transport, Call(method="POST", path="/api", body=b"{}"))
            await transport.close()
        assert code == 200
        assert seen == [("POST", "Bearer old"), ("POST", "Bearer new")]

    asyncio.run(story())


def test_where_there_is_no_other_token_the_refusal_stands(tmp_path: Path) -> None:
    asked = 0

    async def handler(request: web.BaseRequest) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=401, text="who are you?")

    async def story() -> None:
        async with serving(handler) as address:
            source = Fixed(Credential(token="wrong"))
            transport = HttpTransport(address, source=source, trust=Trust())
            assert await ask(transport) == (401, b"who are you?")
            await transport.close()
        assert asked == 1

    asyncio.run(story())


def test_a_stream_that_falls_silent_is_noticed() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        await asyncio.sleep(30)
        return answer

    async def story() -> None:
        async with serving(handler) as address:
            transport = HttpTransport(address, source=Fixed(Credential()), trust=Trust())
            call = Call(method="GET", path="/api", is_stream=True, silence_max_s=0.1)
            with pytest.raises(Unreachable, match="broke off"):
                await ask(transport, call)
            await transport.close()

    asyncio.run(story())


def test_requests_share_a_connection() -> None:
    ports: set[int] = set()

    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.Response(text="ok")

    async def story() -> None:
        async with serving(handler) as address:
            transport = HttpTransport(address, source=Fixed(Credential()), trust=Trust())
            for _ in range(20):
                assert await ask(transport) == (200, b"ok")
            await transport.close()
        assert len(ports) == 1

    asyncio.run(story())


# Certificates


class Pair:
    """A certificate that vouches for itself."""

    def __init__(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.certificate, self.key = (
            certificate.public_bytes(Encoding.PEM).decode(),
            encoded.decode(),
        )


def server_tls(folder: Path, server: Pair, client: Pair) -> ssl.SSLContext:
    (folder / "pair.pem").write_text(server.certificate + server.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "pair.pem")
    tls.load_verify_locations(cadata=client.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    return tls


def test_both_sides_show_certificates_and_the_server_goes_by_its_name(tmp_path: Path) -> None:
    server, client = Pair("kube"), Pair("makeway")

    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.Response(text=shown["subject"][0][0][1])

    async def story() -> None:
        source = Fixed(Credential(certificate=client.certificate, key=client.key))
        async with serving(handler, server_tls(tmp_path, server, client)) as address:
            named = Trust(ca=server.certificate, server_name="kube")
            transport = HttpTransport(address, source=source, trust=named)
            assert await ask(transport) == (200, b"makeway")
            await transport.close()
            stranger = HttpTransport(address, source=source, trust=Trust(ca=server.certificate))
            with pytest.raises(Unreachable, match="certificate is not valid"):
                await ask(stranger)
            await stranger.close()

    asyncio.run(story())


def test_a_key_that_does_not_fit_is_told_as_such() -> None:
    async def story() -> None:
        source = Fixed(Credential(certificate=Pair("a").certificate, key=Pair("b").key))
        transport = HttpTransport("https://127.0.0.1:1", source=source, trust=Trust())
        with pytest.raises(Unreachable, match="the client certificate can't be used"):
            await ask(transport)
        await transport.close()

    asyncio.run(story())
