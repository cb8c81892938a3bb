"""How long the hook command waits for its answer; in this process, with short limits."""

import socket
import threading

import pytest

from hooklatch.hosts import exchange
from hooklatch.hosts.exchange import NoDaemonError, OversizedAnswerError
from support.host_daemon import Start


def read_nothing(connection: socket.socket, _: bytes) -> None:
    connection.recv(1)  # until the client hangs up


def test_a_daemon_that_is_silent_even_to_a_ping_is_given_up(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as stopped:  # connects out of the backlog, as a stopped process does
        stopped.bind(f"{folder}/agent.sock")
        stopped.listen()

        with pytest.raises(NoDaemonError, match="even to a ping"):
            exchange.exchange(b"x" * 2**22, [folder], timeout=600, silence=0.02)


def test_a_slow_answer_is_waited_for_while_pings_are_answered(folder: str) -> None:
    pinged = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/agent.sock")
        listener.listen()

        def serve() -> None:
            fire, _ = listener.accept()
            ping, _ = listener.accept()
            with fire, ping:
                assert b"ping" in ping.recv(100)
                ping.sendall(b"{}\n")
                pinged.set()
                fire.sendall(b"late\n")

        thread = threading.Thread(target=serve)
        thread.start()
        received = exchange.exchange(b"{}\n", [folder], timeout=600, silence=0.2)
        thread.join()

    assert received == b"late"
    assert pinged.is_set()


def test_the_time_limit_ends_the_wait(start: Start, folder: str) -> None:
    start(read_nothing)

    with pytest.raises(NoDaemonError, match="in time"):
        exchange.exchange(b"{}\n", [folder], timeout=0.05)


def test_an_answer_without_end_is_cut_off(start: Start, folder: str) -> None:
    start(b"a" * (exchange.MAX_FRAME + 2**20))

    with pytest.raises(OversizedAnswerError):
        exchange.exchange(b"{}\n", [folder], timeout=600)


def test_an_answer_is_read_although_the_daemon_hung_up_before_the_end_of_the_line(start: Start, folder: str) -> None:
    start(b"too big\n")

    received = exchange.exchange(b"x\n" + b"x" * 2**23, [folder], timeout=600)

    assert received == b"too big"
