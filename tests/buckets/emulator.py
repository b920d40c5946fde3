"""Google Cloud Storage in memory, in a process of its own: `python -m tests.buckets.emulator`.

Prints the port it listens on and ends when its standard input does. The emulator answers one
connection at a time; here each has a thread, since readers hold many open.
"""

from __future__ import annotations

import logging
import sys
from http.server import ThreadingHTTPServer

from gcp_storage_emulator import server


def main() -> None:
    logging.disable(logging.CRITICAL)
    server.server.HTTPServer = ThreadingHTTPServer
    emulator = server.create_server("localhost", 0, in_memory=True)
    emulator.start()
    sys.stdout.write(f"{emulator._api._httpd.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    emulator.stop()


if __name__ == "__main__":
    main()
