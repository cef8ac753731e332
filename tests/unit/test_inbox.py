"""The pager thread's inbox: what rings wakes it, and all is taken in the order in which it was put."""

import threading

from server.pager.inbox import Ask, Inbox, Leave, Released


def taken(inbox):
    return list(iter(inbox.take, None))


def test_what_is_put_quietly_is_taken_in_its_place_with_what_rings():
    inbox = Inbox()
    asked, released, left = Ask("h", (), (), 1), Released(), Leave("h")
    inbox.put_quietly(asked)
    inbox.put(released)
    inbox.put_quietly(left)
    inbox.wait(60.0)
    assert taken(inbox) == [asked, released, left]
    assert inbox.take() is None


def test_what_is_put_quietly_wakes_nobody():
    inbox, is_awake = Inbox(), threading.Event()

    def sleep():
        inbox.wait(None)
        is_awake.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    inbox.put_quietly(Released())
    assert not is_awake.wait(0.05)
    inbox.put(Released())
    assert is_awake.wait(60.0)
    sleeper.join()
    assert len(taken(inbox)) == 2
