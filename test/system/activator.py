"""Holds listening sockets and starts a program with them, as systemd does with a socket unit.

Arguments: the sockets (an address of IPv4, or a path), separated by commas, then the program and its arguments. First
the addresses are printed. Each line on standard input, `start` or `stop`, is carried out; when the program has ended,
`ended STATUS` is printed. When standard input ends, so does everything.
"""
import os, signal, socket, sys

sockets = []
for where in sys.argv[1].split(","):
    if where.startswith("/"):
        held = socket.socket(socket.AF_UNIX)
        held.bind(where)
    else:
        held = socket.socket()
        held.bind((where, 0))
    held.listen(16)
    sockets.append(held)
names = [held.getsockname() for held in sockets]
print(*(name if isinstance(name, str) else name[1] for name in names), sep=",", flush=True)

child = 0
for order in sys.stdin:
    if order.strip() == "start":
        child = os.fork()
        if child == 0:
            # Out of the way first: one of them may stand where another belongs.
            high = [os.dup(held.fileno()) for held in sockets]
            for number, held in enumerate(high):
                os.dup2(held, 3 + number)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_PID=str(os.getpid()))
            os.execvp(sys.argv[2], sys.argv[2:])
    else:
        os.kill(child, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        child = 0
        print("ended", status, flush=True)
if child:
    os.kill(child, signal.SIGKILL)
