# Tells somebody of a night without a data set: a job that failed, a launch that was refused, or silence.
# https://cloud.google.com/monitoring/api/metrics_gcp_d_h#gcp-dataflow

locals {
  alerts = var.alert_email == null ? 0 : 1

  # The last line of a conversion that ends without a data set. Names of jobs may end in a date.
  failed_logs = join(" OR ", concat(
    [
      "(resource.type = \"cloud_scheduler_job\" AND resource.labels.job_id = \"${var.job_name}\" AND severity >= ERROR AND httpRequest.status != 409)",
    ],
    var.kubernetes == null ? [] : [
      "(resource.type = \"k8s_container\" AND resource.labels.namespace_name = \"${var.kubernetes.namespace}\" AND textPayload : \"beam-tfrecord: error: \")",
    ],
  ))
}

resource "google_monitoring_notification_channel" "email" {
  count = local.alerts

  display_name = "beam-tfrecord"
  type         = "email"
  labels       = { email_address = var.alert_email }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "failed_job" {
  count = local.alerts

  display_name          = "beam-tfrecord: a job failed"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].name

  conditions {
    display_name = "A job whose name begins so failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"dataflow_job\"",
        "resource.labels.job_name = starts_with(\"${var.job_name}\")",
        "metric.type = \"dataflow.googleapis.com/job/is_failed\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "refused" {
  count = local.alerts

  display_name          = "beam-tfrecord: a launch or a conversion was refused"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].name

  conditions {
    display_name = "The schedule could not start a job, or a container ended with an error"

    condition_matched_log {
      filter = local.failed_logs
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }

  depends_on = [google_project_service.needed]
}

# Counts data sets that were completed: a worker of Dataflow logs it, a container prints its summary.
resource "google_logging_metric" "completed" {
  count = local.alerts

  name = "beam_tfrecord_completed"
  filter = join(" AND ", [
    "resource.type = (\"dataflow_step\" OR \"k8s_container\")",
    "(jsonPayload.message : \"data set complete: \" OR textPayload : \"  manifest: gs://\")",
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }

  depends_on = [google_project_service.needed]
}

# 24 hours without one, for two hours: monitoring looks back 25 hours at most.
resource "google_monitoring_alert_policy" "silence" {
  count = local.alerts

  display_name          = "beam-tfrecord: no new data set for 26 hours"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].name

  conditions {
    display_name = "No data set was completed"

    condition_threshold {
      filter                  = "resource.type = one_of(\"dataflow_job\", \"k8s_container\") AND metric.type = \"logging.googleapis.com/user/${google_logging_metric.completed[0].name}\""
      comparison              = "COMPARISON_LT"
      threshold_value         = 1
      duration                = "7200s"
      evaluation_missing_data = "EVALUATION_MISSING_DATA_ACTIVE"

      aggregations {
        alignment_period     = "86400s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
}
