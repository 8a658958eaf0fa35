"""Callers that mislead, for callers.ts: each command connects to a socket in its own way.

Prints one line of JSON: the answer of the command, a list of answers for `several`. A served connection gets the server's
SETTINGS, so any byte is a success.
"""
import json
import os
import signal
import socket
import sys
import threading
import time

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def send(through, s):
    socket.send_fds(through, [b"."], [s.fileno()])


def is_served(s):
    try:
        s.sendall(HELLO)
        return len(s.recv(100)) > 0
    except ConnectionError:
        return False


def enter(group, pid=0):
    with open(group + "/cgroup.procs", "w") as file:
        file.write(str(pid or os.getpid()))


def attempts(path, count, groups):
    """Connects `count` times from each group in turn; an empty name stays where it is."""
    served = 0
    for group in groups:
        if group:
            enter(group)
        for _ in range(count):
            s = connect(path)
            served += is_served(s)
            s.close()
    return {"attempts": count * len(groups), "served": served}


def renamed(path, count, group, name):
    """Each attempt is made while the group of this process has the name of a pod, which cgroup v1 allows."""
    enter(group)
    disguise = os.path.join(os.path.dirname(group), name)
    served = 0
    for _ in range(count):
        os.rename(group, disguise)
        s = connect(path)
        served += is_served(s)
        s.close()
        os.rename(disguise, group)
    return {"attempts": count, "served": served}


def handed_on(path, count):
    """Each connection is opened by a process that ends at once, and used by this one."""
    served = 0
    for _ in range(count):
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            send(theirs, connect(path))
            os._exit(0)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(child, 0)
        s = socket.socket(fileno=fds[0])
        served += is_served(s)
        s.close()
        ours.close()
    return {"attempts": count, "served": served}


def reused(path, group):
    """A process connects and ends; its connection stays open, and its pid becomes that of a process in `group`.

    Run it while the server does nothing. It leaves two processes, which end when the server has answered.
    """
    child, s = left_behind(path)
    victim = start_as(child, 2000)
    if victim == child:
        enter(group, victim)
        if os.fork() == 0:
            detach()
            is_served(s)
            os.kill(victim, 9)
            os._exit(0)
    return {"pid": child, "reused": victim == child}


def reused_while_stopped(path, group, server, count):
    """As `reused`, `count` times: the server is another process, which is stopped until the pid is that of the pod."""
    served = reused = 0
    for _ in range(count):
        os.kill(server, signal.SIGSTOP)
        try:
            child, s = left_behind(path)
            victim = start_as(child, 200)
            if victim:
                enter(group, victim)
                reused += 1
        finally:
            os.kill(server, signal.SIGCONT)
        served += is_served(s)
        s.close()
        if victim:
            os.kill(victim, 9)
            os.waitpid(victim, 0)
    return {"attempts": count, "served": served, "reused": reused}


def left_behind(path):
    """The pid of a process that has connected and ended, and its connection."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        send(theirs, connect(path))
        os._exit(0)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(child, 0)
    return child, socket.socket(fileno=fds[0])


def start_as(pid, attempts):
    """The pid of a process that sleeps, which is `pid`; 0 if the machine does not let it in so many attempts."""
    for _ in range(attempts):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid - 1))
        started = os.fork()
        if started == 0:
            detach()
            while True:
                time.sleep(60)
        if started == pid:
            return started
        os.kill(started, 9)
        os.waitpid(started, 0)
    return 0


def detach():
    for fd in (0, 1, 2):
        os.close(fd)


def passed(path, from_group, to_group):
    """A process in one group connects and lives on; one in another group uses the connection."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        enter(from_group)
        send(theirs, connect(path))
        theirs.recv(1)
        os._exit(0)
    enter(to_group)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    served = is_served(socket.socket(fileno=fds[0]))
    ours.send(b".")
    os.waitpid(child, 0)
    return {"served": served}


def thread(path, group, thread_group):
    """A thread whose group is another than that of its process, which cgroup v1 allows."""
    enter(group)
    result = {}

    def run():
        with open(thread_group + "/tasks", "w") as file:
            file.write(str(threading.get_native_id()))
        result["served"] = is_served(connect(path))

    t = threading.Thread(target=run)
    t.start()
    t.join()
    return result


def run(command, *arguments):
    return COMMANDS[command](*arguments)


COMMANDS = {
    "attempts": lambda path, count, *groups: attempts(path, int(count), groups),
    "renamed": lambda path, count, group, name: renamed(path, int(count), group, name),
    "handed-on": lambda path, count: handed_on(path, int(count)),
    "reused-while-stopped": lambda path, group, server, count: reused_while_stopped(path, group, int(server), int(count)),
    "several": lambda *lines: [run(*json.loads(line)) for line in lines],
    "reused": reused,
    "passed": passed,
    "thread": thread,
}
print(json.dumps(run(*sys.argv[1:])), flush=True)
