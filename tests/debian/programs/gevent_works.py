# needs: python3-gevent
"""A pool of tasks, a queue and a timeout over a server on the loopback."""
from gevent import monkey

monkey.patch_all()
import socket

import gevent
import gevent.pool
import gevent.queue
import gevent.server

server = gevent.server.StreamServer(("127.0.0.1", 0), lambda connection, address: connection.sendall(connection.recv(10)[::-1]))
server.start()


def ask(text):
    with socket.create_connection(server.address) as connection:
        connection.sendall(text.encode())
        return connection.recv(10).decode()


print(gevent.pool.Pool(10).map(ask, [f"task {i}" for i in range(20)]))
queue = gevent.queue.Queue()
gevent.spawn(lambda: [queue.put(i) for i in range(3)])
print([queue.get(timeout=5) for _ in range(3)])
try:
    with gevent.Timeout(0.05):
        gevent.sleep(5)
except gevent.Timeout:
    print("timed out")
