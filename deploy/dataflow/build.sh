#!/usr/bin/env bash
# Builds the container image with Cloud Build, then writes the Flex Template's specification.
# https://cloud.google.com/dataflow/docs/guides/templates/configuring-flex-templates
set -euo pipefail

usage() {
  cat >&2 << 'END'
usage: deploy/dataflow/build.sh --project PROJECT --image REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG
           --template gs://BUCKET/FOLDER/NAME.json [--docker]

  --project   the project that builds the image and has its repository
  --image     name of the image, with a unique tag; the template names the image by its digest,
              which is printed
  --template  where to write the specification of the template
  --docker    build with Docker on this machine instead of Cloud Build
END
}

fail() {
  echo "build.sh: error: $1" >&2
  usage
  exit 2
}

project='' image='' template='' docker=''
while (($#)); do
  case $1 in
    --project | --image | --template)
      (($# > 1)) || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    --docker) docker=yes && shift ;;
    --help) usage 2>&1 && exit 0 ;;
    *) fail "unknown argument $1" ;;
  esac
done
[[ $project ]] || fail "--project is missing"
[[ $image =~ :[A-Za-z0-9_][A-Za-z0-9_.-]*$ && $image != *:latest ]] ||
  fail "--image is '$image'; expected a name that ends in a tag other than latest, such as :20260131"
[[ $template == gs://*/*.json ]] || fail "--template is '$template'; expected gs://BUCKET/.../NAME.json"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)

if [[ $docker ]]; then
  bash "$here/build_image.sh" "$image"
else
  gcloud builds submit "$top" --project "$project" --config "$here/cloudbuild.yaml" \
    --substitutions "_IMAGE=$image"
fi
digest=$(gcloud artifacts docker images describe "$image" --project "$project" \
  --format 'value(image_summary.digest)')
[[ $digest == sha256:* ]] || { echo "build.sh: error: the registry names no digest of $image" >&2; exit 1; }
echo "${image%:*}@$digest"
gcloud dataflow flex-template build "$template" --project "$project" --image "${image%:*}@$digest" \
  --sdk-language PYTHON --metadata-file "$here/metadata.json"
