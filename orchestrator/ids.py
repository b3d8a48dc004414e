"""Ids: a kind, then 24 characters that sort by the time of minting. For the shell only."""

import secrets
import time
from typing import Final, Literal

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

Kind = Literal["asst", "thread", "msg", "run", "step", "call"]

_TIME_DIGITS: Final = 9  # 62**9 µs are 429 years
_RANDOM_DIGITS: Final = 15
_RANDOM_BITS: Final = 89  # what 15 digits hold


def mint(kind: Kind) -> str:
    """A new id such as ``run_1CMoXIu4uWZHG0T6eYp3Qk7b``: letters and digits only, as RQ wants them.

    The host's clock only makes ids sort well; nothing is decided by it.
    """
    moment = _digits(time.time_ns() // 1000, _TIME_DIGITS)
    return f"{kind}_{moment}{_digits(secrets.randbits(_RANDOM_BITS), _RANDOM_DIGITS)}"


def _digits(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
