import os
import signal
import subprocess
import sys
import threading

import pytest

from palaestra.core.child_process import (
    LineChild,
    LineReader,
    describe_exit,
    die_with_parent,
    end_process,
    import_path,
    kill_group,
    last_line,
    module_command,
    parent_to_follow,
    signal_name,
    start_module,
    wait_for_exit,
)

ECHO = """
import json, os, sys
answers = int(sys.argv[-1])
print("printed")
for line in sys.stdin:
    os.write(answers, json.dumps({"echo": json.loads(line)}).encode() + b"\\n")
"""
DEAF = "import time; print('up', flush=True); time.sleep(60)"


def code(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.fixture
def echo():
    child = LineChild(code(ECHO), output=subprocess.DEVNULL)
    yield child
    child.end()


def received(child: LineChild, count: int) -> list:
    messages: list = []
    while len(messages) < count:
        assert child.wait(30)
        messages += child.receive()
    return messages


def test_messages_are_lines_of_json_in_both_directions_and_what_the_child_prints_is_not_among_them(echo):
    echo.send({"number": 1})
    echo.send(["a", None])
    assert received(echo, 2) == [{"echo": {"number": 1}}, {"echo": ["a", None]}]


def test_receiving_does_not_wait_and_waiting_has_a_limit(echo):
    assert echo.receive() == []
    assert echo.wait(0.01) is False


def test_the_end_of_the_child_ends_its_replies_and_has_a_description(echo):
    echo.close_input()
    assert echo.wait(30)
    with pytest.raises(EOFError):
        echo.receive()
    assert echo.describe_exit(30) == "ended with exit code 0"
    echo.send({"too": "late"})  # lost, without an error


def test_a_child_leads_its_own_process_group_or_session(echo):
    assert os.getpgid(echo.pid) == echo.pid
    assert os.getsid(echo.pid) == os.getsid(0)
    other = LineChild(code(ECHO), output=subprocess.DEVNULL, own_session=True)
    try:
        assert os.getsid(other.pid) == other.pid
    finally:
        other.end()


def test_ending_kills_a_child_that_does_not_end_by_itself_and_closes_the_pipe():
    child = LineChild(code(DEAF), output=subprocess.DEVNULL)
    answers = child.descriptor
    child.end(grace_seconds=0.05)
    assert child.process.returncode == -signal.SIGKILL
    assert child.is_closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(answers)
    child.end()  # twice is once


def test_without_waiting_a_full_pipe_keeps_the_rest_for_later():
    child = LineChild(code(DEAF), output=subprocess.DEVNULL, can_wait=False)
    try:
        child.send("x" * 300_000)
        assert child.receive() == []
        child.process.kill()
        child.process.wait()
        child.send("y")  # the pipe is broken: everything is dropped
    finally:
        child.end()


def test_the_descriptor_of_the_replies_may_be_in_a_variable():
    child = LineChild(
        code("import os; os.write(int(os.environ['ANSWERS']), b'{}\\n')"),
        pipe_variable="ANSWERS",
        variables={**os.environ, "ANSWERS": "overwritten"},
    )
    try:
        assert received(child, 1) == [{}]
    finally:
        child.end()


def test_a_command_that_cannot_be_started_leaves_no_descriptor_open():
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(FileNotFoundError):
        LineChild(["/there/is/no/such/program"])
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_line_reader_gives_whole_lines_only():
    reading, writing = os.pipe()
    reader = LineReader(reading)
    os.write(writing, b"one\ntw")
    assert reader.read() == [b"one"]
    assert reader.read() == []
    os.write(writing, b"o\nrest")
    os.close(writing)
    assert reader.read() == [b"two"]
    with pytest.raises(EOFError):
        reader.read()
    os.close(reading)


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [(0, "ended with exit code 0"), (-signal.SIGSEGV, "was ended by SIGSEGV"), (None, "stopped answering")],
)
def test_an_exit_is_described_in_words(exit_code, said):
    assert describe_exit(exit_code) == said


def test_signals_without_a_name_have_their_number():
    assert signal_name(signal.SIGKILL) == "SIGKILL"
    assert signal_name(50) == "signal 50"


def test_the_last_line_says_why_a_child_failed():
    assert last_line(b"Traceback\n  File\nValueError: no\n\n") == "ValueError: no"
    assert last_line(b" \n") == "it printed nothing"


def test_a_group_is_killed_with_all_that_belongs_to_it():
    starts_another = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    process = subprocess.Popen([*code(starts_another), DEAF], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"up\n"  # the grandchild
    kill_group(process, grace_seconds=5.0)
    assert process.returncode == -signal.SIGTERM
    assert process.stdout.read() == b"", "closed with the last of them"
    process.stdout.close()
    kill_group(process, grace_seconds=5.0)  # nothing is left to kill


def test_a_process_that_ends_when_its_input_ends_is_not_killed():
    process = subprocess.Popen(code("import sys; sys.exit(len(sys.stdin.read()))"), stdin=subprocess.PIPE)
    end_process(process, grace_seconds=30.0)
    assert process.returncode == 0


def test_waiting_for_an_exit_gives_up():
    process = subprocess.Popen(code(DEAF), stdout=subprocess.DEVNULL)
    assert wait_for_exit(process, 0.01) is None
    end_process(process)
    assert wait_for_exit(process, 0.0) == -signal.SIGKILL


def test_the_kernel_ends_a_child_whose_parent_is_killed():
    child = "from palaestra.core.child_process import die_with_parent as end; end(); print('x', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], stdin=0).wait()"
    process = subprocess.Popen(code(parent), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"x\n"
    process.kill()
    assert process.stdout.read() == b"", "the child held it open"
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_parent_that_ended_before_the_call_is_not_survived():
    child = os.fork()
    if not child:
        die_with_parent(os.getppid() + 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_thread_that_may_end_first_is_not_followed():
    found = []
    thread = threading.Thread(target=lambda: found.append(parent_to_follow()))
    thread.start()
    thread.join()
    assert (parent_to_follow(), found) == (os.getpid(), [0])


def test_a_child_imports_what_this_process_imports(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("print('found')")
    monkeypatch.syspath_prepend(tmp_path)
    variables = {**os.environ, "PYTHONPATH": import_path()}
    done = subprocess.run(module_command("only_here"), env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "found\n"


TALKER = """
import os, sys
print("for the log")
os.write(int(sys.argv[1]), " ".join([*sys.argv[2:], os.environ["OMP_NUM_THREADS"]]).encode())
"""


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """What a module that only we can import writes into the descriptor that it was given."""
    (tmp_path / "talker_for_tests.py").write_text(TALKER)
    monkeypatch.syspath_prepend(tmp_path)

    def report():
        reading, writing = os.pipe()
        process = start_module("talker_for_tests", (writing,))
        os.close(writing)
        with os.fdopen(reading) as stream:
            arguments = stream.read()
        assert process.wait(30) == 0
        return arguments

    return report


def test_a_module_is_started_with_our_import_path_our_pid_and_its_output_on_stderr(reports, capfd):
    assert reports() == f"{os.getpid()} 1"
    assert capfd.readouterr() == ("", "for the log\n")


def test_a_module_that_a_short_thread_starts_does_not_end_with_that_thread(reports):
    arguments = []
    thread = threading.Thread(target=lambda: arguments.append(reports()))
    thread.start()
    thread.join()
    assert arguments == ["0 1"]
