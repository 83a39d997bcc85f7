"""The explorer under load: clients that ask for predictions all at once, and a training beside it.

    ./dev bench explorer [--clients 100] [--seconds 60]

Trains a small run, serves it, and lets the clients ask one question after another, a third of a second
apart. It prints how many were answered, how long they waited, what memory the program took at the
beginning and at the end, and what a training beside it keeps of its quiet speed. An answer that is
not 200, memory that grows by a fifth, or a training that keeps less than half its speed fails the run."""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

INPUTS = ["12 May 1999", "3rd of July 2001", "the 5th of March, 1987", "Monday, 1 January 2024"]


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench explorer", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    return parser.parse_args()


def resident(process):
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def steps_in(folder):
    """The latest step that the log has."""
    with open(os.path.join(folder, "log.jsonl")) as log:
        steps = [json.loads(line)["step"] for line in log if line.endswith("\n")]  # the last may be half
    return steps[-1] if steps else 0


class Training:
    """A training that goes on until it is told to stop; speed() is of the time since asked before."""

    def __init__(self, fovea, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [fovea, "train", "translate", "--out", folder, "--epochs", "0", "--minutes", "30", "--seed", "2"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(os.path.join(folder, "log.jsonl")):
            time.sleep(0.1)
        time.sleep(3)
        self.speed()

    def speed(self):
        step, now = steps_in(self.folder), time.monotonic()
        before = getattr(self, "before", (step, now - 1))
        self.before = (step, now)
        return (step - before[0]) / (now - before[1])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def ask(port, token, until, waits, faults, number):
    body = json.dumps({"input": INPUTS[number % len(INPUTS)]})
    headers = {"X-Fovea-Token": token, "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            connection.request("POST", "/api/runs/dates/predict", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                faults.append((answer.status, text[:100]))
            waits.append(time.monotonic() - began)
        except OSError as error:
            faults.append((0, repr(error)))
            connection.close()
        time.sleep(0.3)


def under_load(options, address):
    port = int(address.split(":")[2].strip("/"))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    page = connection.getresponse().read().decode()
    token = re.search(r'fovea-token" content="([^"]+)"', page).group(1)
    waits, faults = [], []
    until = time.monotonic() + options.seconds
    clients = [threading.Thread(target=ask, args=(port, token, until, waits, faults, i))
               for i in range(options.clients)]
    for client in clients:
        client.start()
    return clients, waits, faults


def main():
    options = arguments()
    fovea = os.path.join(os.path.abspath(options.build), "fovea")
    folder = tempfile.mkdtemp(prefix="fovea-load-")
    run = os.path.join(folder, "runs", "dates")
    subprocess.run([fovea, "train", "translate", "--out", run, "--examples", "2000", "--epochs", "1"],
                   check=True, capture_output=True)
    server = subprocess.Popen([fovea, "serve", run, "--port", "0"], stdout=subprocess.PIPE, text=True, cwd=folder)
    training = None
    try:
        address = server.stdout.readline().strip()
        training = Training(fovea, os.path.join(folder, "beside"))
        time.sleep(10)
        quiet = training.speed()
        clients, waits, faults = under_load(options, address)
        time.sleep(min(10, options.seconds / 3))
        first = resident(server)
        for client in clients:
            client.join()
        busy, last = training.speed(), resident(server)
    finally:
        if training:
            training.stop()
        server.send_signal(signal.SIGINT)
        server.wait()
        server.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
    waits.sort()
    at = lambda share: 1000 * waits[int(share * (len(waits) - 1))]
    print(f"{len(waits)} answers in {options.seconds:.0f} s to {options.clients} clients, {len(faults)} faults")
    print(f"waited {at(0.5):.0f} ms (half), {at(0.95):.0f} ms (95 %), {at(1):.0f} ms (longest)")
    print(f"memory {first:.0f} MB after a while, {last:.0f} MB at the end")
    print(f"a training beside it: {quiet:.1f} steps/s alone, {busy:.1f} beside ({busy / quiet:.2f})")
    for fault in faults[:5]:
        print("fault:", fault)
    return 1 if faults or last > 1.2 * first or busy < 0.5 * quiet else 0


if __name__ == "__main__":
    sys.exit(main())
