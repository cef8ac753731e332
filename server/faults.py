"""The exception tree of the server. A fault of the world is usually a value; these stop an operation, not the server.

ServerFault
  WorldFault     a world folder cannot be opened, written or trusted; the text says what to do
  Refused        a client may not have what it asked for; `code` goes to the wire
"""


class ServerFault(Exception):  # noqa: N818 - a fault of the world, a refusal: not always an error of ours
    """Base of what the server raises on purpose. Its text is for users: what happened, what it means, what to do."""


class WorldFault(ServerFault):
    """A world folder cannot be opened, written or trusted."""


class Refused(ServerFault):
    """A client may not have what it asked for."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
