#!/usr/bin/env bash
# Converts one set of images on Dataflow and here, compares bytes, time and cost, and removes what it made.
# prove.py does the work; PYTHON names the interpreter of an environment with beam-tfrecord.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
if ! "$python" -c 'import beam_pipeline, google.cloud.storage' 2> /dev/null; then
  echo "prove.sh: error: $python has no beam-tfrecord with its extra for Google Cloud: pip install '.[gcp]'" \
    "in the checkout, or name another interpreter in PYTHON" >&2
  exit 2
fi
exec "$python" "$here/prove.py" "$@"
