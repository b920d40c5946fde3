# Custom roles with exactly the permissions that the requests need. ../../README.md explains each.

resource "google_project_iam_custom_role" "launcher" {
  role_id     = "beamTfrecordLauncher"
  title       = "beam-tfrecord: starts jobs"
  permissions = ["dataflow.jobs.create"]
}

resource "google_project_iam_custom_role" "watcher" {
  role_id = "beamTfrecordWatcher"
  title   = "beam-tfrecord: waits for jobs"
  permissions = [
    "dataflow.jobs.cancel",
    "dataflow.jobs.get",
    "dataflow.jobs.list",
  ]
}

resource "google_project_iam_custom_role" "template" {
  role_id     = "beamTfrecordTemplate"
  title       = "beam-tfrecord: reads the template"
  permissions = ["storage.objects.get"]
}

resource "google_project_iam_custom_role" "input" {
  role_id = "beamTfrecordInput"
  title   = "beam-tfrecord: reads images and labels"
  permissions = [
    "storage.objects.get",
    "storage.objects.list",
  ]
}

resource "google_project_iam_custom_role" "output" {
  role_id = "beamTfrecordOutput"
  title   = "beam-tfrecord: writes data sets"
  permissions = [
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
  ]
}

resource "google_project_iam_custom_role" "temp" {
  role_id = "beamTfrecordTemp"
  title   = "beam-tfrecord: keeps Dataflow's own files"
  permissions = [
    "storage.buckets.get",
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
  ]
}
