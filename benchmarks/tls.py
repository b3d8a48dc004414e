"""Servers on loopback that speak TLS, for the benchmarks that need them: a certificate (made with
openssl), a store (a redis-server of the system: the bundled one has no TLS) and a website.
"""

import secrets
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from orchestrator.storage.embedded import find_free_port

NAMES: Final = "subjectAltName=IP:127.0.0.1,DNS:localhost"
START_S: Final = 10.0


def why_not() -> str | None:
    """Why there can be no such servers here; ``None`` if there can."""
    missing = [name for name in ("openssl", "redis-server") if shutil.which(name) is None]
    return f"this system has no {' and no '.join(missing)}" if missing else None


def make_certificate(folder: Path) -> Path:
    """A certificate that vouches for itself, with its key in the same file."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    new = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    told = ("-subj", "/CN=127.0.0.1", "-addext", NAMES, "-keyout", str(key), "-out", str(made))
    subprocess.run(["openssl", "req", *new, *told], check=True, capture_output=True)
    made.write_text(made.read_text() + key.read_text())
    return made


@contextmanager
def tls_store(folder: Path, certificate: Path) -> Iterator[str]:
    """A store that speaks nothing but TLS; yields its URL, the certificate's file in it."""
    port, password = find_free_port(), secrets.token_hex(16)
    settings = {
        "port": 0,
        "tls-port": port,
        "tls-cert-file": certificate,
        "tls-key-file": certificate,
        "tls-ca-cert-file": certificate,
        "tls-auth-clients": "no",
        "bind": "127.0.0.1",
        "requirepass": password,
        "dir": folder,
        "save": '""',
    }
    process = subprocess.Popen(
        ["redis-server", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write("".join(f"{name} {value}\n" for name, value in settings.items()).encode())
    url = f"rediss://:{password}@127.0.0.1:{port}/0?ssl_ca_certs={certificate}"
    try:
        _wait_for(url)
        yield url
    finally:
        process.kill()
        process.wait()


@contextmanager
def tls_site(certificate: Path) -> Iterator[str]:
    """A website that answers ``GET /WORDS`` with the words; yields its address."""
    server = _Site(("127.0.0.1", 0), _Echo)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    # The handshake belongs to the thread of the connection: here it would stop all others.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Site(ThreadingHTTPServer):
    """Keeps its connections open, and its mouth shut about those that clients break off."""

    request_queue_size = 128
    block_on_close = False
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client is gone."""


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """The path's words."""
        words = self.path.removeprefix("/").encode()
        self.send_response(200)
        self.send_header("content-length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _wait_for(url: str) -> None:
    give_up_at = time.monotonic() + START_S
    with Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
            except NoConnection:
                assert time.monotonic() < give_up_at, "this redis-server does not speak TLS"
            else:
                return
