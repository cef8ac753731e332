"""Asks the server in this container whether it can make frames: exit 0 if so, 1 if not. Standard library only."""
# ruff: noqa: INP001 - a script, not a package

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    """One request to /healthz, with the token of the environment."""
    port = os.environ.get("WORLDPAGER_PORT", "8765")
    token = os.environ.get("WORLDPAGER_TOKEN", "")
    request = urllib.request.Request(f"http://127.0.0.1:{port}/healthz")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=3.0):  # noqa: S310 - a constant address
            return 0
    except (urllib.error.URLError, TimeoutError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - docker inspect shows it
        return 1


if __name__ == "__main__":
    sys.exit(main())
