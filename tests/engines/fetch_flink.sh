#!/usr/bin/env bash
# Fetches what the tests on Flink need into a folder: job-server.jar, built by Maven, and flink/, the distribution that the Python package apache-flink-libraries carries. What is there already stays.
# The tests find them by BEAM_TFRECORD_FLINK_JOB_SERVER and BEAM_TFRECORD_FLINK. PYTHON names another interpreter.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: fetch_flink.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [[ ! -e $folder/job-server.jar ]]; then
  cp "$here/pom.xml" "$work/"
  mvn -q -B -Dstyle.color=never -f "$work/pom.xml" package
  mv "$work/target/flink-job-server-1.jar" "$folder/job-server.jar"
fi

if [[ ! -e $folder/flink ]]; then
  # Its dependencies pin an old Beam, and nothing here imports it.
  "${PYTHON:-python3}" -m pip install -q --no-deps --disable-pip-version-check --target "$work/dist" apache-flink-libraries==1.19.3
  mv "$work/dist/pyflink" "$folder/flink"
fi
