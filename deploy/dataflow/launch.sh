#!/usr/bin/env bash
# Starts a conversion on Dataflow from the Flex Template that build.sh wrote.
# https://cloud.google.com/sdk/gcloud/reference/dataflow/flex-template/run
set -euo pipefail

usage() {
  cat >&2 << 'END'
usage: deploy/dataflow/launch.sh --project PROJECT --region REGION --template gs://BUCKET/.../NAME.json
           --temp gs://BUCKET/FOLDER [OPTION ...] -- images=gs://... output=gs://... [PARAMETER=VALUE ...]

  --job_name NAME                   default: beam-tfrecord- and the time
  --temp FOLDER                     where Dataflow keeps its own files
  --worker_service_account ACCOUNT  for launcher and workers; default: Compute Engine's, which has
                                    more rights
  --subnetwork SUBNETWORK           regions/REGION/subnetworks/NAME
  --private_ips                     workers get no public addresses; the subnetwork needs
                                    Private Google Access
  --flexrs                          cheaper; the job starts within six hours
  --max_workers N
  --machine_type TYPE
  --labels NAME=VALUE[,...]         for the bill, beside application=beam-tfrecord

Parameters are the options of `beam-tfrecord convert` without their dashes. A flag is true or false. To
pass several values to an option, use a JSON list: 'images=["gs://a/one", "gs://a/two"]'.
END
}

fail() {
  echo "launch.sh: error: $1" >&2
  usage
  exit 2
}

# gcloud splits the parameters at this delimiter, because values may contain commas
# (`gcloud topic escaping`).
readonly DELIMITER='~~'

project='' region='' template='' temp='' job_name='' labels='application=beam-tfrecord'
options=()
while (($#)); do
  case $1 in
    --) shift && break ;;
    --private_ips) options+=(--disable-public-ips) && shift && continue ;;
    --flexrs) options+=(--flexrs-goal COST_OPTIMIZED) && shift && continue ;;
    --help) usage 2>&1 && exit 0 ;;
  esac
  (($# > 1)) || fail "$1 is unknown or needs a value"
  case $1 in
    --project | --region | --template | --temp | --job_name) declare "${1#--}=$2" ;;
    --worker_service_account) options+=(--service-account-email "$2") ;;
    --subnetwork) options+=(--subnetwork "$2") ;;
    --max_workers) options+=(--max-workers "$2") ;;
    --labels) labels+=",$2" ;;
    --machine_type) options+=(--worker-machine-type "$2") ;;
    *) fail "unknown option $1; parameters of the conversion go after --" ;;
  esac
  shift 2
done
[[ $project ]] || fail "--project is missing"
[[ $region ]] || fail "--region is missing"
[[ $template == gs://*/* ]] || fail "--template is '$template'; expected gs://BUCKET/.../NAME.json"
[[ $temp == gs://* ]] || fail "--temp is '$temp'; expected gs://BUCKET/FOLDER"

parameters='' names=' '
for parameter in "$@"; do
  [[ $parameter =~ ^[a-z_]+=. ]] || fail "'$parameter' is no parameter; expected NAME=VALUE"
  [[ $parameter != *"$DELIMITER"* ]] || fail "'$parameter' holds $DELIMITER, which gcloud would split at"
  parameters+="${parameters:+$DELIMITER}$parameter"
  names+="${parameter%%=*} "
done
for name in images output; do
  [[ $names == *" $name "* ]] || fail "the parameter $name is missing"
done

gcloud dataflow flex-template run "${job_name:-beam-tfrecord-$(date -u +%Y%m%d-%H%M%S)}" \
  --project "$project" --region "$region" --template-file-gcs-location "$template" \
  --staging-location "$temp/staging" --temp-location "$temp/temp" \
  --additional-user-labels "$labels" ${options[@]+"${options[@]}"} \
  --parameters "^$DELIMITER^$parameters"
