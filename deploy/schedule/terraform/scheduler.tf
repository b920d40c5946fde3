resource "google_project_service" "needed" {
  for_each = toset([
    "artifactregistry.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudscheduler.googleapis.com",
    "compute.googleapis.com",
    "dataflow.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "storage.googleapis.com",
  ])

  service            = each.value
  disable_on_destroy = false
}

module "launch_body" {
  source = "./launch_body"

  job_name               = var.job_name
  template               = var.template
  parameters             = var.parameters
  worker_service_account = google_service_account.worker.email
  temp                   = var.temp
  subnetwork             = var.subnetwork
  max_workers            = var.max_workers
  flexrs                 = var.flexrs
  most_hours             = var.most_hours
}

# https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.flexTemplates/launch
resource "google_cloud_scheduler_job" "convert" {
  name      = var.job_name
  region    = var.region
  schedule  = var.schedule
  time_zone = var.time_zone

  # A retried launch starts no second job: Dataflow answers 409 while a job of this name runs.
  retry_config {
    retry_count = 3
  }

  http_target {
    http_method = "POST"
    uri         = "https://dataflow.googleapis.com/v1b3/projects/${var.project}/locations/${var.region}/flexTemplates:launch"
    headers     = { "Content-Type" = "application/json" }
    body        = base64encode(module.launch_body.json)

    # OAuth, because the target is a Google API; OIDC tokens are for your own services.
    oauth_token {
      service_account_email = google_service_account.launcher.email
      scope                 = "https://www.googleapis.com/auth/cloud-platform"
    }
  }

  depends_on = [google_project_service.needed]
}
