"""Which Input message to send, and when: 60 Hz when something changed, else a heartbeat. Pure; the link's thread."""

from collections import OrderedDict

from client.mailbox import Steering
from shared.protocol import Input

SEND_HZ = 60.0
_HEARTBEAT_S = 0.1
_MAX_REMEMBERED = 4_096  # sent inputs: more than a minute of steady change


class Inputs:
    """The inputs of a visit. Sequence numbers go on over reconnects; mouse sums begin anew at each welcome."""

    def __init__(self) -> None:
        self._seq = 0
        self._base = Steering()
        self._sent: tuple[Steering, int] | None = None
        self._sent_s = 0.0
        self._sent_at_s: OrderedDict[int, float] = OrderedDict()

    def welcome(self, steering: Steering) -> None:
        """A connection begins: from here on mouse sums count."""
        self._base = steering
        self._sent = None

    def next(self, steering: Steering, ack: int, now_s: float) -> Input | None:
        """The message that is due now, or None. `ack` is the newest frame that was taken from the socket."""
        if self._sent == (steering, ack) and now_s - self._sent_s < _HEARTBEAT_S:
            return None
        self._sent, self._sent_s = (steering, ack), now_s
        seq = self._seq
        self._seq += 1
        self._sent_at_s[seq] = now_s
        if len(self._sent_at_s) > _MAX_REMEMBERED:
            self._sent_at_s.popitem(last=False)
        return Input(
            seq=seq,
            t_ms=now_s * 1_000.0,
            keys=int(steering.keys),
            mouse_x=steering.mouse_x - self._base.mouse_x,
            mouse_y=steering.mouse_y - self._base.mouse_y,
            ack=ack,
            buffered=min(1_000, steering.buffered),
        )

    def sent_at_s(self, seq: int) -> float | None:
        """When an input was sent; None when it is unknown or long ago. Any thread."""
        return self._sent_at_s.get(seq)
