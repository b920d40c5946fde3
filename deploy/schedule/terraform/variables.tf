variable "project" {
  description = "Project in which the job runs."
  type        = string
}

variable "region" {
  description = "Region of the job and of the schedule; that of the buckets is cheapest."
  type        = string
}

variable "template" {
  description = "Specification of the Flex Template, as deploy/dataflow/build.sh wrote it."
  type        = string

  validation {
    condition     = can(regex("^gs://[^/]+/.+\\.json$", var.template))
    error_message = "Expected gs://BUCKET/.../NAME.json."
  }
}

variable "repository" {
  description = "Repository of Artifact Registry in the project and the region that holds the image."
  type        = string
}

variable "parameters" {
  description = "Options of `beam-tfrecord convert` as text: flags are true or false, several values a JSON list."
  type        = map(string)

  validation {
    condition     = can(regex("^gs://|^\\[", var.parameters.images)) && can(regex("^gs://[^/]+/.+", var.parameters.output))
    error_message = "Expected at least images and output, each gs://BUCKET/FOLDER."
  }
}

variable "input_buckets" {
  description = "Buckets, without gs://, in which images, labels and inventories lie."
  type        = set(string)

  validation {
    condition     = length(var.input_buckets) > 0 && alltrue([for name in var.input_buckets : !startswith(name, "gs://")])
    error_message = "Expected names of buckets without gs://, at least one."
  }
}

variable "temp" {
  description = "Folder for Dataflow's own files; a bucket of its own keeps them apart from data."
  type        = string

  validation {
    condition     = can(regex("^gs://[^/]+/.+[^/]$", var.temp))
    error_message = "Expected gs://BUCKET/FOLDER."
  }
}

variable "job_name" {
  description = "Name of the job. While a job of this name runs, a second one is not started."
  type        = string
  default     = "beam-tfrecord"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]*[a-z0-9])?$", var.job_name))
    error_message = "Expected small letters, digits and dashes, a letter first."
  }
}

variable "schedule" {
  description = "When it starts, as cron writes it."
  type        = string
  default     = "0 2 * * *"
}

variable "time_zone" {
  description = "Zone in which the schedule is meant."
  type        = string
  default     = "Etc/UTC"
}

variable "max_workers" {
  description = "Workers at most."
  type        = number
  default     = 20

  validation {
    condition     = var.max_workers >= 1
    error_message = "Expected 1 or more."
  }
}

variable "flexrs" {
  description = "Whether the job may wait for up to six hours, and costs less."
  type        = bool
  default     = true
}

variable "subnetwork" {
  description = "regions/REGION/subnetworks/NAME with Private Google Access: workers then have no public address. Empty: the default network, and public addresses."
  type        = string
  default     = ""
}

variable "airflow_member" {
  description = "Member that runs airflow_dag.py, such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com; null without Airflow."
  type        = string
  default     = null
}

variable "kubernetes" {
  description = "Namespace and service account of kubernetes_cronjob.yaml in a GKE cluster of the project; null without Kubernetes."
  type = object({
    namespace       = string
    service_account = string
  })
  default = null
}
