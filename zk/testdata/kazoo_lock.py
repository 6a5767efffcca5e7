"""Locks with kazoo: kazoo_lock.py SERVERS PATH FILE CYCLES.

Inside the lock FILE must not exist; it is made and removed there.
"""

import os
import sys

from kazoo.client import KazooClient

servers, path, file, cycles = sys.argv[1:]
client = KazooClient(hosts=servers)
client.start()
lock = client.Lock(path, "kazoo", extra_lock_patterns=["-lock-"])
for _ in range(int(cycles)):
    with lock:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        os.remove(file)
client.stop()
client.close()
