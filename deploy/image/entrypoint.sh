#!/bin/sh
# Aviso-server's commands as they are, and the parts of a Spark cluster by name:
#   master [OPTION...]          of a standalone cluster
#   worker MASTER [OPTION...]   of a standalone cluster
#   connect [OPTION...]         a Spark Connect server
#   executor                    what Spark starts on Kubernetes, which says the rest by variables
set -eu

run="$SPARK_HOME/bin/spark-class"

case "${1:-}" in
master)
  shift
  exec "$run" org.apache.spark.deploy.master.Master "$@"
  ;;
worker)
  shift
  exec "$run" org.apache.spark.deploy.worker.Worker "$@"
  ;;
connect)
  shift
  exec "$SPARK_HOME/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer "$@" spark-internal
  ;;
executor)
  # Spark numbers the options of its JVM: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... One each, as they are.
  number=0
  set --
  while option=$(printenv "SPARK_JAVA_OPT_$number"); do
    set -- "$@" "$option"
    number=$((number + 1))
  done
  exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
*)
  exec aviso-server "$@"
  ;;
esac
