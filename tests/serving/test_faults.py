"""Servers that end, hang and are full, and the client (mobicuda.serving) that asks again."""

import os
import signal
import threading

import numpy as np
import pytest

from conftest import BATCH_8, ENCODED, add_model, encoded, expected, floats, load_client, start_server

serving = load_client()
MOST_KILLS = 20
QUEUE_OF_1 = 'parameters { key: "max_queue_size" value { string_value: "1" } }'


@pytest.fixture(scope="module")
def repository(folder):
    add_model(folder / "repository", "classifier", BATCH_8)
    add_model(folder / "repository", "pictures", f"{BATCH_8} {ENCODED}")
    add_model(folder / "repository", "full", f"{BATCH_8} {QUEUE_OF_1}")
    return folder / "repository"


@pytest.fixture(scope="module")
def right(repository, folder):
    return expected(repository / "classifier/1/model.onnx", "floats", list(floats(3)), folder)


class Load:
    def __init__(self, client, right, model_images=floats(3)):
        self.client, self.right, self.images = client, right, model_images
        self.answers, self.wrong, self.lost = 0, 0, []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(4)]

    def _run(self):
        while not self._ended.is_set():
            try:
                answer = self.client.infer(self.images)["output"]
            except Exception as error:
                self.lost.append(repr(error))
                continue
            self.answers += 1
            self.wrong += not np.array_equal(answer, self.right)

    def wait_for(self, more):
        end = self.answers + more
        while self.answers < end and not self.lost:
            self._ended.wait(0.01)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self._ended.set()
        for thread in self._threads:
            thread.join()


def test_nothing_is_lost_when_a_server_is_killed(folder, repository, right):
    with start_server(folder, repository, name="stays") as stays:
        goes = start_server(folder, repository, name="goes")
        try:
            kills = 0
            with serving.Client([stays.grpc_url, goes.grpc_url], "classifier", timeout=120) as client:
                while client.retries == 0 and kills < MOST_KILLS:  # until requests were under way when it was
                    if not goes.alive():
                        goes = start_server(folder, repository, name="goes")
                        client.close()
                        client = serving.Client([stays.grpc_url, goes.grpc_url], "classifier", timeout=120)
                    with Load(client, right) as load:
                        load.wait_for(40)
                        os.kill(goes.process.pid, signal.SIGKILL)
                        kills += 1
                        load.wait_for(40)
                    assert (load.wrong, load.lost) == (0, [])
                assert client.retries > 0
                client.close()
        finally:
            goes.kill()


def test_nothing_is_lost_when_a_server_is_asked_to_end(folder, repository, right):
    with (
        start_server(folder, repository, name="stays") as stays,
        start_server(folder, repository, name="ends") as ends,
        serving.Client([stays.grpc_url, ends.grpc_url], "classifier", timeout=120) as client,
    ):
        with Load(client, right) as load:
            load.wait_for(40)
            assert ends.stop() == 0, ends.log()
            load.wait_for(40)
        assert (load.wrong, load.lost) == (0, [])


@pytest.fixture(scope="module")
def server(folder, repository):
    with start_server(folder, repository) as server:
        yield server
        assert server.alive(), server.log()


def test_a_server_that_hangs_takes_the_time_of_a_call_and_no_more(folder, repository, server, right):
    with start_server(folder, repository, name="hangs") as hangs:
        with serving.Client([server.grpc_url, hangs.grpc_url], "classifier", timeout=60) as client:
            client.infer(floats(3))
            os.kill(hangs.process.pid, signal.SIGSTOP)
            for _ in range(2):  # one of them meets it first
                assert np.array_equal(client.infer(floats(3), timeout=12)["output"], right)
            assert client.retries > 0
        with (
            serving.Client(hangs.grpc_url, "classifier", timeout=0.5) as client,
            pytest.raises(serving.DeadlineExceeded, match="the last said: DEADLINE_EXCEEDED"),
        ):
            client.infer(floats(1))
        os.kill(hangs.process.pid, signal.SIGCONT)


def test_a_full_queue_is_waited_for(server, right):
    with serving.Client(server.grpc_url, "full", timeout=120) as client:
        with Load(client, right) as load:
            while client.retries == 0 and not load.lost:
                load.wait_for(20)
        assert (load.wrong, load.lost) == (0, [])


def test_bad_requests_are_not_sent_again(server):
    with serving.Client(server.grpc_url, "classifier") as client:
        with pytest.raises(serving.RequestError, match="batch-size must be <= 8") as failed:
            client.infer(floats(9))
        assert failed.value.status == "INVALID_ARGUMENT"
        with pytest.raises(TypeError, match="takes an array of float32, got float64"):
            client.infer(floats(1).astype(np.float64))
        assert client.retries == 0
    with serving.Client(server.grpc_url, "nobody") as client:
        with pytest.raises(serving.RequestError, match="nobody"):
            client.infer(floats(1))
    with pytest.raises(ValueError, match="at least one HOST:PORT"):
        serving.Client([], "classifier")
    with pytest.raises(ValueError, match="above 0 seconds"):
        serving.Client("x:1", "classifier", timeout=0)


def test_nobody_listens():
    with serving.Client("127.0.0.1:1", "classifier", timeout=2) as client:
        with pytest.raises(serving.DeadlineExceeded, match="UNAVAILABLE"):
            client.infer(floats(1))
        assert client.retries > 0


def test_encoded_pictures(server, repository, folder):
    pictures = [encoded(1), encoded(2, "PNG")]
    with serving.Client([server.grpc_url], "pictures") as client:
        answer = client.infer(pictures, outputs=["output"])["output"]
        assert np.array_equal(answer, expected(repository / "pictures/1/model.onnx", "encoded", pictures, folder))
        for wrong in (pictures[0], floats(1)):
            with pytest.raises(TypeError, match="a sequence of bytes"):
                client.infer(wrong)
