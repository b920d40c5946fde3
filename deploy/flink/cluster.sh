#!/usr/bin/env bash
# A Flink cluster on this machine: one JobManager, some TaskManagers and one pool of Python workers.
#
#   cluster.sh start FOLDER    starts it and waits until every TaskManager has registered
#   cluster.sh stop FOLDER     stops its processes
#
# FOLDER holds its settings, logs and process ids. Environment variables:
#   FLINK_HOME       folder of the Flink distribution, with bin/ and lib/
#   PYTHON           interpreter of the environment with beam-tfrecord (default: python3)
#   TASK_MANAGERS    number of TaskManagers (default: 2)
#   SLOTS            slots per TaskManager, and so shards written at the same time (default: 1)
#   MEMORY           memory of each TaskManager's Java process, in MB (default: 1000 + 500 per slot)
#   REST_PORT, RPC_PORT, POOL_PORT   (default: 8081, 6123, 50000)
set -euo pipefail

: "${PYTHON:=python3}" "${TASK_MANAGERS:=2}" "${SLOTS:=1}"
: "${MEMORY:=$((1000 + 500 * SLOTS))}"
: "${REST_PORT:=8081}" "${RPC_PORT:=6123}" "${POOL_PORT:=50000}"

# Packages that Java 17 closes to libraries of Flink and Beam.
OPENS=()
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.text java.time \
  java.util java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks; do
  OPENS+=("--add-opens=java.base/$package=ALL-UNNAMED")
done

die() {
  echo "cluster.sh: $*" >&2
  exit 1
}

write_settings() {
  mkdir -p "$folder/conf" "$folder/log" "$folder/pid"
  cat > "$folder/conf/config.yaml" << END
jobmanager.rpc.address: localhost
jobmanager.rpc.port: $RPC_PORT
jobmanager.memory.process.size: 1000m
rest.address: localhost
rest.bind-address: localhost
rest.port: $REST_PORT
taskmanager.host: localhost
taskmanager.memory.process.size: ${MEMORY}m
taskmanager.memory.network.min: $((192 * SLOTS))m
taskmanager.memory.network.max: $((192 * SLOTS))m
taskmanager.numberOfTaskSlots: $SLOTS
io.tmp.dirs: $folder/tmp
heartbeat.interval: 3000
restart-strategy.type: failure-rate
restart-strategy.failure-rate.max-failures-per-interval: 4
restart-strategy.failure-rate.failure-rate-interval: 10 min
restart-strategy.failure-rate.delay: 2 s
END
  mkdir -p "$folder/tmp"
  cat > "$folder/conf/log4j.properties" << 'END'
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %c - %m%n
END
}

# Flink's own tool computes how a process divides its memory: one line for Java, one for Flink.
resources() {
  java -cp "$FLINK_HOME/bin/bash-java-utils.jar:$class_path" \
    org.apache.flink.runtime.util.bash.BashJavaUtils "$1" --configDir "$folder/conf" 2> /dev/null |
    sed -n 's/^BASH_JAVA_UTILS_EXEC_RESULT://p'
}

# run NAME COMMAND...: starts a process that outlives this script.
run() {
  local name=$1
  shift
  nohup "$@" > "$folder/log/$name.out" 2>&1 < /dev/null &
  echo $! > "$folder/pid/$name"
}

# run_flink NAME RESOURCES MAIN_CLASS ARGUMENT...
run_flink() {
  local name=$1 resources=$2 main=$3 for_java for_flink
  shift 3
  { read -r for_java && read -r for_flink; } <<< "$resources" || die "Flink could not divide the memory; see MEMORY"
  # shellcheck disable=SC2086 # both are lists of words
  run "$name" java $for_java "${OPENS[@]}" "-Dlog.file=$folder/log/$name.log" \
    "-Dlog4j.configurationFile=$folder/conf/log4j.properties" -cp "$class_path" \
    "$main" --configDir "$folder/conf" $for_flink "$@"
}

# alive PID: succeeds if this is a process of this cluster, because the system may have reused the id.
# One that has not begun its program yet still bears this script's name and folder.
alive() {
  local command
  command=$(ps -p "$1" -o args= 2> /dev/null) || return
  [[ $command == *"$folder/"* || $command == *" $folder" || $command == *beam_pipeline.engines.worker_pool* ]]
}

wait_for_task_managers() {
  local overview="http://localhost:$REST_PORT/overview" ask name
  ask="import json, urllib.request; print(json.load(urllib.request.urlopen('$overview'))['taskmanagers'])"
  for _ in $(seq 120); do
    for name in "$folder"/pid/*; do
      alive "$(cat "$name")" || die "${name##*/} ended; see $folder/log/"
    done
    [[ $("$PYTHON" -c "$ask" 2> /dev/null) == "$TASK_MANAGERS" ]] && return
    sleep 0.5
  done
  die "fewer than $TASK_MANAGERS TaskManagers after a minute; see $folder/log/"
}

start() {
  [[ -e ${FLINK_HOME:-}/bin/bash-java-utils.jar ]] || die "FLINK_HOME=${FLINK_HOME:-} has no bin/bash-java-utils.jar; set it to the folder of a Flink distribution"
  [[ ! -d $folder/pid ]] || die "$folder already has a cluster; stop it first"
  class_path=$(printf '%s:' "$FLINK_HOME"/lib/*.jar)
  write_settings
  trap stop EXIT
  run worker-pool "$PYTHON" -m beam_pipeline.engines.worker_pool --port "$POOL_PORT"
  run_flink jobmanager "$(resources GET_JM_RESOURCE_PARAMS)" \
    org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint
  local for_task_managers
  for_task_managers=$(resources GET_TM_RESOURCE_PARAMS)
  for i in $(seq "$TASK_MANAGERS"); do
    run_flink "taskmanager-$i" "$for_task_managers" \
      org.apache.flink.runtime.taskexecutor.TaskManagerRunner -D "taskmanager.resource-id=taskmanager-$i"
  done
  wait_for_task_managers
  trap - EXIT
  echo "Flink runs at localhost:$REST_PORT: $TASK_MANAGERS TaskManagers with $SLOTS slots each, workers at localhost:$POOL_PORT"
}

stop() {
  [[ -d $folder/pid ]] || return 0
  local pid pids=()
  while read -r pid; do
    if alive "$pid"; then
      kill "$pid"
      pids+=("$pid")
    fi
  done < <(cat "$folder"/pid/*)
  for pid in ${pids[@]+"${pids[@]}"}; do
    for _ in $(seq 100); do
      alive "$pid" || break
      sleep 0.1
    done
    ! alive "$pid" || kill -9 "$pid"
  done
  rm -r "$folder/pid"
}

[[ $# == 2 && $1 =~ ^(start|stop)$ ]] || die "expected start FOLDER or stop FOLDER"
folder=$(realpath -m "$2")
"$1"
