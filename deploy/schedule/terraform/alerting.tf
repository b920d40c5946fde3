# Tells somebody of a night without a data set: a job that failed, or a launch that was refused.
# https://cloud.google.com/monitoring/api/metrics_gcp_d_h#gcp-dataflow

resource "google_monitoring_notification_channel" "email" {
  count = var.alert_email == null ? 0 : 1

  display_name = "beam-tfrecord"
  type         = "email"
  labels       = { email_address = var.alert_email }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "failed_job" {
  count = var.alert_email == null ? 0 : 1

  display_name          = "beam-tfrecord: a job failed"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].name

  conditions {
    display_name = "A job of this name failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"dataflow_job\"",
        "resource.labels.job_name = \"${var.job_name}\"",
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

resource "google_monitoring_alert_policy" "refused_launch" {
  count = var.alert_email == null ? 0 : 1

  display_name          = "beam-tfrecord: a launch was refused"
  combiner              = "OR"
  notification_channels = google_monitoring_notification_channel.email[*].name

  conditions {
    display_name = "The schedule could not start a job"

    condition_matched_log {
      filter = join(" AND ", [
        "resource.type = \"cloud_scheduler_job\"",
        "resource.labels.job_id = \"${google_cloud_scheduler_job.convert.name}\"",
        "severity >= ERROR",
      ])
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }

  depends_on = [google_project_service.needed]
}
