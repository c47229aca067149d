"""The class without pytest: start, stop, control endpoints, and no orphans."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse

import pytest

from kubeproof import ControlError, Kubeproof, ProgramNotFound, StartError, find_program


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def get(server, path):
    return json.loads(server.control.request("GET", path))


def test_a_server_lives_as_long_as_its_block():
    with Kubeproof(controllers="none") as server:
        pid, directory = server.pid, server.kubeconfig.parent
        assert get(server, "/version")["major"] == "1"
        assert alive(pid)
        # The server says this after it listens.
        deadline = time.monotonic() + 30
        while "no controllers" not in server.output:
            assert time.monotonic() < deadline, server.output
    assert not alive(pid)
    assert not directory.exists()
    with pytest.raises(RuntimeError, match="not running"):
        server.url
    server.start()
    server.stop()
    server.stop()


def test_servers_have_ports_of_their_own():
    with Kubeproof(controllers="none") as one, Kubeproof(controllers="none") as other:
        assert one.url != other.url


@pytest.mark.parametrize("token", [None, "s3cret"])
def test_control_works_over_tls(token):
    with Kubeproof(controllers="none", tls=True, token=token) as server:
        assert server.url.startswith("https://")
        assert server.control.faults() == []


def test_a_wrong_flag_is_an_error_with_the_words_of_the_program():
    with pytest.raises(StartError, match="no controller \"nobody\""):
        Kubeproof(controllers="nobody").start()


def test_a_program_that_does_not_listen_is_given_up(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    with pytest.raises(StartError, match="does not listen after 0.2 s"):
        Kubeproof(program=program, start_seconds=0.2).start()


def test_a_program_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBEPROOF_BINARY", str(tmp_path / "none"))
    with pytest.raises(ProgramNotFound, match="none is not a program"):
        find_program()


def test_virtual_time_is_advanced():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "short"},
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox"}]}},
        },
    }
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    with Kubeproof(nodes=1, args=["--virtual-time"]) as server:
        control = server.control
        control.request("POST", jobs, job)
        control.advance("10m")
        (done,) = json.loads(control.request("GET", jobs))["items"]
        assert done["status"]["succeeded"] == 1
        control.advance("1h")
        assert json.loads(control.request("GET", jobs))["items"] == []


def test_the_clock_jumps_and_faults_are_met():
    with Kubeproof(controllers="none") as server:
        control = server.control

        def created(name):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            made = json.loads(control.request("POST", "/api/v1/namespaces/default/configmaps", body))
            return made["metadata"]["creationTimestamp"]

        before = created("before")
        control.jump("8760h")
        assert int(created("after")[:4]) == int(before[:4]) + 1
        refusal = {
            "name": "full",
            "on": {"verb": "create", "resource": "configmaps"},
            "times": 1,
            "refuse": {"code": 429, "reason": "TooManyRequests"},
        }
        with pytest.raises(ControlError, match="passes by itself"):
            control.advance("10h")
        with control.fault(refusal):
            with pytest.raises(ControlError) as refused:
                created("third")
            assert refused.value.code == 429
            created("third")
        assert control.faults() == [{"name": "full", "met": 1}]
        with control.fault({**refusal, "times": 2}):
            pass
        created("fourth")
        for method in (
            control.compact,
            control.bookmark_watches,
            control.close_watches,
            control.drop_watches,
            control.expire_watches,
        ):
            method("configmaps")
        control.restart()
        with pytest.raises(ControlError, match="no active fault"):
            control.lift("full")


def test_objects_and_values_of_metrics_are_put_into_a_running_server():
    with Kubeproof(controllers="none", args=["--metrics", "all"]) as server:
        control = server.control
        objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}]
        assert control.import_objects(objects)["stored"] == 1
        assert get(server, "/api/v1/namespaces/default/configmaps/a")["data"] == {"k": "v"}
        objects[0]["data"] = {"k": "w"}
        with pytest.raises(ControlError, match="already exists"):
            control.import_objects(objects)
        control.import_objects(objects, replace=True)
        assert get(server, "/api/v1/namespaces/default/configmaps/a")["data"] == {"k": "w"}
        control.put_metric({"name": "queue_length", "value": "30"})
        assert [(value["name"], value["value"]) for value in control.metrics()] == [("queue_length", "30")]
        control.put_metric({"name": "queue_length"})
        assert control.metrics() == []


def test_a_snapshot_is_where_another_server_begins(tmp_path):
    log = tmp_path / "seed.jsonl"
    with Kubeproof(controllers="none") as server:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        server.control.request("POST", "/api/v1/namespaces/default/configmaps", body)
        log.write_text(server.control.snapshot())
    with Kubeproof(from_log=log) as server:
        assert get(server, "/api/v1/namespaces/default/configmaps/a")["metadata"]["name"] == "a"


def test_a_namespace_goes_with_its_block():
    with Kubeproof() as server:
        with server.namespace("shop-") as name:
            assert name.startswith("shop-")
            assert get(server, f"/api/v1/namespaces/{name}")["status"]["phase"] == "Active"
        deadline = time.monotonic() + 30
        while name in server.control.request("GET", "/api/v1/namespaces").decode():
            assert time.monotonic() < deadline


@pytest.mark.parametrize("end", ["killed", "exits"])
def test_no_server_outlives_its_python(end):
    program = (
        "import sys; from kubeproof import Kubeproof; server = Kubeproof(controllers='none').start();"
        "print(server.url, flush=True); sys.stdin.read()"
    )
    python = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with python:
        address = urllib.parse.urlsplit(python.stdout.readline().strip())
        assert listens(address)
        if end == "killed":
            python.kill()
        else:
            python.stdin.close()
        python.wait()
    deadline = time.monotonic() + 30
    while listens(address):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.05)


def listens(address):
    try:
        socket.create_connection((address.hostname, address.port)).close()
    except ConnectionRefusedError:
        return False
    return True
