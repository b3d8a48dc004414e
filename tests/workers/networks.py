"""Worker hosts with networks of their own, which a test can cut off: network namespaces, each on a
cable to the machine that the test runs on. For root on Linux, with iproute2.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

PARTS: Final = 100, 200
"""The two hosts are the machine's neighbours on these halves of a test network (RFC 2544)."""


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace. ``server`` is the machine's address as this host sees it."""

    name: str
    server: str

    @property
    def command(self) -> list[str]:
        """What a command begins with that is to run on this host."""
        return ["ip", "netns", "exec", self.name]

    def cut_off(self) -> None:
        """Pull the cable: nothing gets through, and nobody is told."""
        _ip("link", "set", self.name, "down")

    def reconnect(self) -> None:
        """Plug it in again."""
        _ip("link", "set", self.name, "up")


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach this machine and not each other."""
    net = f"198.18.{os.getpid() % 256}"
    hosts = [Host(f"rs{os.getpid()}-{part}", f"{net}.{part + 1}") for part in PARTS]
    try:
        for host, part in zip(hosts, PARTS, strict=True):
            _connect(host, f"{net}.{part + 2}")
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            _ip("link", "delete", host.name, is_checked=False)
            _ip("netns", "delete", host.name, is_checked=False)


def why_not() -> str | None:
    """Why there can be no hosts here; ``None`` if there can."""
    if shutil.which("ip") is None:
        return "there is no iproute2"
    name = f"rs{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.strip()}"
    return None


def _connect(host: Host, address: str) -> None:
    """Both ends of the cable have the namespace's name."""
    _ip("netns", "add", host.name)
    _ip("link", "add", host.name, "type", "veth", "peer", "name", host.name, "netns", host.name)
    _ip("address", "add", f"{host.server}/30", "dev", host.name)
    _ip("link", "set", host.name, "up")
    inside = ("-netns", host.name)
    _ip(*inside, "address", "add", f"{address}/30", "dev", host.name)
    _ip(*inside, "link", "set", host.name, "up")
    _ip(*inside, "link", "set", "lo", "up")


def _ip(*words: str, is_checked: bool = True) -> None:
    subprocess.run(["ip", *words], check=is_checked, capture_output=True, text=True)
