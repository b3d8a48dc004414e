"""Text that arrives in pieces, made whole: halves of UTF-16 pairs are joined over the pieces.

JSON lets a server split one character (``\\ud83c`` in one chunk, ``\\udf78`` in the next). No half
ever leaves here, since it can be neither stored nor sent; one without its partner becomes U+FFFD.
"""


class Joiner:
    """Give it the pieces in order; it gives back what is whole so far."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """The whole characters of this piece and of what was kept back before it."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return whole(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """What is still kept back, when no more comes: empty or U+FFFD."""
        return whole(self._half)


def whole(text: str) -> str:
    """The text with pairs joined and lone halves replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
