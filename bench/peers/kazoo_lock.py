"""Clients that take turns on one kazoo Lock. See peers.go for how it is called."""

import json
import sys
import threading
import time

from kazoo.client import KazooClient


def work(client, path, seconds, start, moments):
    lock = client.Lock(path)
    while True:
        lock.acquire()
        moments.append(time.monotonic_ns() - start)
        lock.release()
        if time.monotonic_ns() - start >= seconds * 1e9:
            return


def main():
    addrs, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    clients = [KazooClient(hosts=addrs, timeout=15.0) for _ in range(count)]
    for client in clients:
        client.start(timeout=30)
    clients[0].ensure_path(path)
    print("ready", flush=True)
    for line in sys.stdin:
        moments = [[] for _ in clients]
        start = time.monotonic_ns()
        threads = [
            threading.Thread(target=work, args=(client, path, int(line) / 1e3, start, own))
            for client, own in zip(clients, moments)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps([moment for own in moments for moment in own]), flush=True)
    for client in clients:
        client.stop()
        client.close()


main()
