"""Runs a script that measures with time.perf_counter or its ns, and has it measure the CPU time of its process instead, and of those
that it started and waited for.

    cpu_clock.py [--own-network] SCRIPT [ARGUMENT...]

For two processes that share a core: the time that the other has it is not counted. With a network of its own, which Linux
gives to users too, a script may serve on a port that the other serves on. Runs in the measured interpreter.
"""


def enter_own_network():
    """A network with nothing but the loopback interface, which has to be switched on."""
    import fcntl
    import os
    import socket
    import struct
    request_to_set_flags, up = 0x8914, 1        # SIOCSIFFLAGS and IFF_UP, netdevice(7)
    os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, request_to_set_flags, struct.pack("16sH22x", b"lo", up))


def prepare():
    """The script's code; what it sees of its process is then as if it had been started itself."""
    import os
    import resource
    import sys
    import time

    def cpu_time():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return own_time() + children.ru_utime + children.ru_stime

    own_time = time.process_time
    time.perf_counter = cpu_time
    time.perf_counter_ns = lambda: int(cpu_time() * 1e9)
    del sys.argv[0]
    if sys.argv[0] == "--own-network":
        enter_own_network()
        del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    with open(sys.argv[0], "rb") as file:
        return sys.argv[0], compile(file.read(), sys.argv[0], "exec")


# In this very module, as there are scripts that change `__builtins__`, which is another thing in any module but the main one.
if __name__ == "__main__":
    __doc__ = None
    __file__, code = prepare()
    exec(code)
