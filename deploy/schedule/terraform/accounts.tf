# Accounts, and the resources on which each may do its work.

data "google_project" "this" {
  project_id = var.project
}

resource "google_service_account" "launcher" {
  account_id   = "beam-tfrecord-launcher"
  display_name = "beam-tfrecord: starts jobs"
}

# Used by the launcher's machine and the workers: Dataflow runs both as the account that the job names.
resource "google_service_account" "worker" {
  account_id   = "beam-tfrecord-worker"
  display_name = "beam-tfrecord: converts"
}

locals {
  bucket = {
    template = regex("^gs://([^/]+)/", var.template)[0]
    output   = regex("^gs://([^/]+)/", var.parameters.output)[0]
    temp     = regex("^gs://([^/]+)/", var.temp)[0]
  }

  launchers = merge(
    { scheduler = google_service_account.launcher.member },
    var.airflow_member == null ? {} : { airflow = var.airflow_member },
  )

  # https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity
  kubernetes_member = var.kubernetes == null ? null : join("/", [
    "principal://iam.googleapis.com/projects", data.google_project.this.number,
    "locations/global/workloadIdentityPools", "${var.project}.svc.id.goog",
    "subject/ns", var.kubernetes.namespace, "sa", var.kubernetes.service_account,
  ])

  converters = merge(
    { worker = google_service_account.worker.member },
    var.kubernetes == null ? {} : { kubernetes = local.kubernetes_member },
  )

  inputs = {
    for pair in setproduct(keys(local.converters), var.input_buckets) :
    join(" ", pair) => { member = local.converters[pair[0]], bucket = pair[1] }
  }
}

resource "google_project_iam_member" "launcher" {
  for_each = local.launchers

  project = var.project
  role    = google_project_iam_custom_role.launcher.id
  member  = each.value
}

resource "google_project_iam_member" "watcher" {
  count = var.airflow_member == null ? 0 : 1

  project = var.project
  role    = google_project_iam_custom_role.watcher.id
  member  = var.airflow_member
}

resource "google_service_account_iam_member" "launcher_as_worker" {
  for_each = local.launchers

  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}

resource "google_storage_bucket_iam_member" "template" {
  for_each = local.launchers

  bucket = local.bucket.template
  role   = google_project_iam_custom_role.template.id
  member = each.value
}

resource "google_project_iam_member" "worker" {
  project = var.project
  role    = "roles/dataflow.worker"
  member  = google_service_account.worker.member
}

resource "google_artifact_registry_repository_iam_member" "image" {
  location   = var.region
  repository = var.repository
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.worker.member
}

resource "google_storage_bucket_iam_member" "temp" {
  bucket = local.bucket.temp
  role   = google_project_iam_custom_role.temp.id
  member = google_service_account.worker.member
}

resource "google_storage_bucket_iam_member" "input" {
  for_each = local.inputs

  bucket = each.value.bucket
  role   = google_project_iam_custom_role.input.id
  member = each.value.member
}

resource "google_storage_bucket_iam_member" "output" {
  for_each = local.converters

  bucket = local.bucket.output
  role   = google_project_iam_custom_role.output.id
  member = each.value
}
