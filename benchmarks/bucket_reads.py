"""Measures what read-ahead gains if each request takes tens of milliseconds, and what a request costs.

    python benchmarks/bucket_reads.py --output /dev/shm/bucket_reads

`bucket_stub.py` serves a bucket of JPEGs and adds 30 ms to every request. These are measured side by
side, each run in its own process, in interleaved rounds:

- one `beam-tfrecord` writer with 1, 8, 32 and 64 reads in flight, from reference to file;
- the textbook loop, Beam's `MatchFiles`, `ReadMatches` and `read()`, which writes nothing;
- several writers with 32 reads in flight each, in threads of one process, as in an engine's worker.

Before these come ways to read an object with one GET, with and without TLS: the CPU time of each, and
the samples per second of one writer with 32 in flight. The server's own limits are measured, too.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bucket_stub
import google_crc32c
import machine
from bucket_stub import BUCKET, FOLDER, media_path, object_name
from compare import table

from beam_pipeline.core.dataset.sharding import ShardSpec
from beam_pipeline.core.images.preparation import check_header
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.records.example import SampleEncoder
from beam_pipeline.core.records.shard_writer import (
    ExampleMaker,
    ImageReader,
    write_shard,
)
from beam_pipeline.core.records.tfrecord import TFRecordFormat
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ReadAhead, ReadOptions, Request

OBJECTS = 10_000
KILOBYTES = 110
CONNECTIONS = 64
HOST_VARIABLE = "STORAGE_EMULATOR_HOST"
CERTIFICATE_VARIABLE = "SSL_CERT_FILE"
FLIGHTS = {1: 200, 8: 1500, 32: 4000, 64: 4000}
"""Reads in flight -> samples of a run."""

THREADS = (1, 2, 4, 12)
"""Writers side by side in one process."""

THREADS_SAMPLES = 6000
"""Of all of them together, in shards of 500."""

TEXTBOOK_OBJECTS = 100


def host() -> str:
    """Returns the bucket's address for clients."""
    return os.environ[HOST_VARIABLE]


# Ways to read a whole object; each makes an `ImageReader` for a number of threads.


def by_the_project(connections: int) -> ImageReader:
    """Reads as `convert` does."""

    def read(uri: str, size: int, offset: int) -> bytes:
        return files.read_image(f"gs://{BUCKET}/{uri}", size, offset)

    return read


def by_client(connections: int, **options: Any) -> ImageReader:
    """google-cloud-storage's `download_as_bytes`."""
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    client = storage.Client.create_anonymous_client()
    bucket = client.bucket(BUCKET)
    client._http.mount(host(), HTTPAdapter(pool_maxsize=connections))

    def read(uri: str, size: int, offset: int) -> bytes:
        data: bytes = bucket.blob(uri).download_as_bytes(**options)
        return _of_size(data, size, uri)

    return read


def by_authorized_session(connections: int) -> ImageReader:
    """Requests the media URL with the client's own session; checks size and CRC-32C here."""
    from google.cloud import storage
    from requests.adapters import HTTPAdapter

    session = storage.Client.create_anonymous_client()._http
    session.mount(host(), HTTPAdapter(pool_maxsize=connections))

    def read(uri: str, size: int, offset: int) -> bytes:
        answer = session.get(host() + media_path(uri), timeout=60)
        answer.raise_for_status()
        return _checked(answer.content, size, answer.headers["x-goog-hash"], uri)

    return read


def by_urllib3(connections: int) -> ImageReader:
    """Uses the pool beneath; credentials, retries and errors are not handled."""
    import urllib3

    pool = urllib3.PoolManager(maxsize=connections).connection_from_url(host())

    def read(uri: str, size: int, offset: int) -> bytes:
        answer = pool.urlopen("GET", media_path(uri), retries=False, timeout=60)
        assert answer.status == 200
        return _checked(answer.data, size, answer.headers["x-goog-hash"], uri)

    return read


def by_http_client(connections: int) -> ImageReader:
    """Python's own client, one connection per thread: the minimum in Python."""
    own = threading.local()

    def read(uri: str, size: int, offset: int) -> bytes:
        if not hasattr(own, "connection"):
            own.connection = _connection()
        own.connection.request("GET", media_path(uri))
        answer = own.connection.getresponse()
        assert answer.status == 200
        return _checked(answer.read(), size, answer.headers["x-goog-hash"], uri)

    return read


def _connection() -> http.client.HTTPConnection:
    scheme, _, server = host().partition("://")
    if scheme == "http":
        return http.client.HTTPConnection(server)
    return http.client.HTTPSConnection(server)  # it finds the certificate in SSL_CERT_FILE


def by_gcsfs(connections: int) -> ImageReader:
    """gcsfs, which reads with aiohttp in a thread of its own, and compares no checksum here."""
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = (
        "false"  # else it asks Google about the bucket
    )
    import gcsfs

    system = gcsfs.GCSFileSystem(token="anon", endpoint_url=host())

    def read(uri: str, size: int, offset: int) -> bytes:
        return _of_size(system.cat_file(f"{BUCKET}/{uri}"), size, uri)

    return read


def by_s3(connections: int) -> ImageReader:
    """Reads as `convert` does from s3://; checks the size."""
    os.environ |= {
        "AWS_ENDPOINT_URL": host(),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }

    def read(uri: str, size: int, offset: int) -> bytes:
        return files.read_image(f"s3://{BUCKET}/{uri}", size, offset)

    return read


def by_obstore(connections: int, *, md5: bool = False) -> ImageReader:
    """obstore's store for Google Cloud Storage.

    It does not give the header with the CRC-32C, which is computed here and compared with nothing;
    or the MD5 is compared with the ETag, which is the MD5 for some objects.
    """
    import obstore
    from obstore.store import GCSStore

    key = {"gcs_base_url": host(), "disable_oauth": True}
    key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    store = GCSStore(
        BUCKET,
        config={"service_account_key": json.dumps(key)},
        client_options={"allow_http": True, **_root_certificate()},
        retry_config={"max_retries": 0},
    )

    def read(uri: str, size: int, offset: int) -> bytes:
        answer = obstore.get(store, uri)
        data = bytes(answer.bytes())
        if md5:
            found = hashlib.md5(data, usedforsecurity=False).hexdigest()
            assert answer.meta["e_tag"] == f'"{found}"'
        else:
            google_crc32c.value(data)
        return _of_size(data, size, uri)

    return read


def _root_certificate() -> dict[str, bytes]:
    path = os.environ.get(CERTIFICATE_VARIABLE)
    return {"root_certificate": Path(path).read_bytes()} if path else {}


def _of_size(data: bytes, size: int, uri: str) -> bytes:
    if len(data) != size:
        raise OSError(f"{uri}: {len(data)} bytes, expected {size}")
    return data


def _checked(data: bytes, size: int, hashes: str, uri: str) -> bytes:
    found = base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
    if f"crc32c={found}" not in hashes:
        raise OSError(f"{uri}: CRC-32C {found}, expected {hashes}")
    return _of_size(data, size, uri)


READERS: dict[str, Callable[[int], ImageReader]] = {
    "convert": by_the_project,
    "download_as_bytes()": by_client,
    "raw_download, single_shot_download": partial(
        by_client, raw_download=True, single_shot_download=True
    ),
    "the client's session, media URL": by_authorized_session,
    "urllib3": by_urllib3,
    "http.client": by_http_client,
    "gcsfs, nothing compared": by_gcsfs,
    "obstore, CRC-32C not compared": by_obstore,
    "obstore, MD5 compared with the ETag": partial(by_obstore, md5=True),
    "convert, from s3://": by_s3,
}
"""How an object is read -> what makes a reader. All compare the CRC-32C but the last four."""

USUAL = "convert"
_SHARD = 500  # samples


def write(read: ImageReader, count: int, size: int, reads: int, output: str) -> None:
    """Writes a shard of so many objects in this thread."""
    refs = [
        SampleRef(object_name(number), object_name(number), size, "train", (str(number % 10),))
        for number in range(count)
    ]
    columns = (label_column("class", ColumnKind.CLASS),)
    encoder = SampleEncoder(columns, {str(number): number for number in range(10)})
    requests = (Request(ref.uri, ref.size, ref.offset) for ref in refs)
    with (
        files.open_output(output) as sink,
        ReadAhead(requests, read, ReadOptions(max_reads=reads)) as ahead,
    ):
        maker = ExampleMaker(ahead.read, encoder, check_header)
        writer = TFRecordFormat().writer(sink)
        written = write_shard(ShardSpec("train", 0, 1, "x"), refs, maker, writer)
    assert written.info.examples == count
    os.unlink(output)


def write_side_by_side(task: dict[str, Any]) -> None:
    """Writes shards in threads; each takes the next unclaimed shard."""
    shards = iter(range(task["count"] // _SHARD))
    lock = threading.Lock()
    read = READERS[task["reader"]](task["reads"] * task["threads"])

    def work() -> None:
        while True:
            with lock:
                number = next(shards, None)
            if number is None:
                return
            write(read, _SHARD, task["size"], task["reads"], f"{task['output']}-{number}")

    threads = [threading.Thread(target=work) for _ in range(task["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def textbook(count: int) -> float:
    """Returns samples per second of Beam's own loop, from its first read to its last."""
    import apache_beam as beam
    from apache_beam.internal.gcp import auth
    from apache_beam.io import fileio
    from apache_beam.metrics import Metrics

    auth._Credentials._credentials_init = True  # no credentials; searching for them takes 20 s

    def read(file: Any) -> int:
        data = file.read()
        Metrics.distribution("textbook", "read_us").update(int(time.perf_counter() * 1e6))
        return len(data)

    pattern = f"gs://{BUCKET}/{object_name(0)[: -len('00.jpg')]}*"
    pipeline = beam.Pipeline("FnApiRunner")
    pipeline | fileio.MatchFiles(pattern) | fileio.ReadMatches() | beam.Map(read)
    (found,) = pipeline.run().metrics().query()["distributions"]
    times = found.result
    assert times.count >= count, times
    return float((times.count - 1) / (times.max - times.min) * 1e6)


def run_one(task: dict[str, Any]) -> dict[str, float]:
    """Runs one task in its own process; returns samples per second and CPU µs per sample."""
    if task["reader"] == "textbook":
        before = time.process_time()
        rate = textbook(task["count"])
        return {"rate": rate, "cpu_us": (time.process_time() - before) / task["count"] * 1e6}
    read = READERS[task["reader"]](task["reads"])
    write(read, 50, task["size"], task["reads"], task["output"])  # imports, connections
    wall, cpu = time.perf_counter(), time.process_time()
    if "threads" in task:
        write_side_by_side(task)
    else:
        write(read, task["count"], task["size"], task["reads"], task["output"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"rate": task["count"] / wall, "cpu_us": cpu / task["count"] * 1e6, "peak_mb": peak_mb}


def in_process_of_its_own(port: int, **task: Any) -> dict[str, float]:
    """Runs a task in a new process, against the bucket at a port."""
    certificate = task.pop("certificate", "")
    environment = {**os.environ, HOST_VARIABLE: f"http://localhost:{port}"}
    if certificate:
        environment[HOST_VARIABLE] = f"https://localhost:{port}"
        environment |= dict.fromkeys(("REQUESTS_CA_BUNDLE", CERTIFICATE_VARIABLE), certificate)
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{task}\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def server_limit(port: int, connections: int, count: int) -> float:
    """Returns requests per second that the server answers to bare sockets."""
    request = f"GET {media_path(object_name(0))} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port)) as probe:
        probe.sendall(request)
        head = probe.recv(1 << 10)
        length = head.index(b"\r\n\r\n") + 4 + int(head.split(b"Content-Length: ")[1].split()[0])
    selector = selectors.DefaultSelector()
    buffer = bytearray(1 << 20)
    left: dict[Any, int] = {}
    for _ in range(connections):
        connection = socket.create_connection(("127.0.0.1", port))
        selector.register(connection, selectors.EVENT_READ)
        left[connection] = length
    start = time.perf_counter()
    for connection in left:
        connection.sendall(request)
    answered = 0
    while answered < count:
        for key, _ in selector.select():
            connection = key.fileobj
            left[connection] -= connection.recv_into(buffer)
            if not left[connection]:
                answered += 1
                left[connection] = length
                connection.sendall(request)
    seconds = time.perf_counter() - start
    for connection in left:
        connection.close()
    return count / seconds


def median_and_span(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def measure_limits(delayed: int, prompt: int) -> None:
    """Prints the limits of the server itself."""
    limits = [
        [f"{CONNECTIONS} connections, delay", f"{server_limit(delayed, CONNECTIONS, 5000):,.0f}"],
        ["512 connections, delay", f"{server_limit(delayed, 512, 10000):,.0f}"],
        [
            f"{CONNECTIONS} connections, no delay",
            f"{server_limit(prompt, CONNECTIONS, 10000):,.0f}",
        ],
    ]
    print(table(["the server alone", "requests/s"], limits), flush=True)


def measure_flights(port: int, rounds: int, task: dict[str, Any]) -> None:
    """Prints samples per second by reads in flight, beside the textbook loop."""
    rates: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}

    def run(name: str, **more: Any) -> None:
        found = in_process_of_its_own(port, **task, **more)
        rates.setdefault(name, []).append(found["rate"])
        cpu.setdefault(name, []).append(found["cpu_us"])

    for _ in range(rounds):
        run("textbook Beam", reader="textbook", count=TEXTBOOK_OBJECTS)
        for reads, count in FLIGHTS.items():
            run(f"{reads} in flight", reader=USUAL, reads=reads, count=count)
    base = rates["textbook Beam"]
    rows = []
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(values, base, strict=True))
        cost = "" if name == "textbook Beam" else f"{statistics.median(cpu[name]):,.0f}"
        rows.append([name, median_and_span(values), f"{ratio:.1f}", cost])
    head = [
        "one writer",
        "samples/s, median (span)",
        "times the textbook loop",
        "CPU µs per sample",
    ]
    print("\n" + table(head, rows), flush=True)


def measure_threads(port: int, rounds: int, task: dict[str, Any]) -> None:
    """Prints samples per second of a process by its number of writers."""
    found: dict[int, list[dict[str, float]]] = {threads: [] for threads in THREADS}
    for _ in range(rounds):
        for threads in THREADS:
            more = {"reads": 32, "count": THREADS_SAMPLES, "threads": threads}
            found[threads].append(in_process_of_its_own(port, **task, reader=USUAL, **more))
    rows = [
        [
            f"{threads}",
            median_and_span([run["rate"] for run in runs]),
            f"{statistics.median(run['cpu_us'] for run in runs):,.0f}",
            f"{statistics.median(run['peak_mb'] for run in runs):,.0f}",
        ]
        for threads, runs in found.items()
    ]
    head = ["writers in one process", "samples/s, all", "CPU µs per sample", "peak memory, MB"]
    print("\n" + table(head, rows), flush=True)


def measure_readers(ports: dict[str, int], rounds: int, task: dict[str, Any]) -> None:
    """Prints the cost of each way to read an object, and the speed of a writer that uses it.

    Args:
      ports: of servers with delay, by the path of the certificate, empty without TLS.
      rounds: how often.
      task: what all runs share.
    """
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for certificate, port in ports.items():
            for name in READERS:
                more = {"reader": name, "reads": 32, "count": 2000, "certificate": certificate}
                runs = found.setdefault((name, certificate), [])
                runs.append(in_process_of_its_own(port, **task, **more))
    rows = [
        [name]
        + [
            median_and_span([run[figure] for run in found[name, certificate]])
            for figure in ("cpu_us", "rate")
            for certificate in ports
        ]
        for name in READERS
    ]
    kinds = ["TLS" if certificate else "no TLS" for certificate in ports]
    head = ["an object by, 32 in flight", *(f"CPU µs per sample, {kind}" for kind in kinds)]
    print("\n" + table([*head, *(f"samples/s, {kind}" for kind in kinds)], rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", default="/dev/shm/bucket_reads", help="file to write")
    parser.add_argument("--delay-ms", type=float, default=30, help="added to every request")
    parser.add_argument("--kilobytes", type=float, default=KILOBYTES, help="size of each object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", action="store_true", help="compare ways to read, no more")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        print(json.dumps(run_one(json.loads(arguments.task))))
        return
    size = len(bucket_stub.image(arguments.kilobytes))
    print(
        f"Objects of {size:,} bytes in gs://{BUCKET}/{FOLDER}, {arguments.delay_ms:g} ms a request"
    )
    print(machine.sentence(machine.describe()) + "\n")
    task = {"size": size, "output": arguments.output}
    delay_ms, kilobytes = arguments.delay_ms, arguments.kilobytes
    with (
        bucket_stub.certified() as stem,
        bucket_stub.running(delay_ms, OBJECTS, kilobytes) as delayed,
        bucket_stub.running(delay_ms, OBJECTS, kilobytes, stem) as delayed_tls,
        bucket_stub.running(0, OBJECTS, kilobytes) as prompt,
    ):
        ports = {"": delayed, bucket_stub.certificate_of(stem): delayed_tls}
        measure_readers(ports, arguments.rounds, task)
        if arguments.readers:
            return
        measure_limits(delayed, prompt)
        measure_flights(delayed, arguments.rounds, task)
        measure_threads(delayed, arguments.rounds, task)


if __name__ == "__main__":
    main()
