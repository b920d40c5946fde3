#!/usr/bin/env bash
# Builds and pushes an image in two layers: that of the workers, and the launcher's, which names the first by its digest.
# build.sh calls it, here or in Cloud Build, as deploy/dataflow/build_image.sh NAME:TAG.
set -euo pipefail

image=$1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
docker build --file "$top/deploy/dataflow/Dockerfile" --tag "$image-workers" "$top"
docker push "$image-workers"
workers=$(docker inspect --format '{{index .RepoDigests 0}}' "$image-workers")
[[ $workers == *@sha256:* ]] || { echo "build_image.sh: error: $image-workers has no digest" >&2; exit 1; }
docker build --tag "$image" - << END
FROM $workers
ENV BEAM_TFRECORD_IMAGE=$workers
END
docker push "$image"
