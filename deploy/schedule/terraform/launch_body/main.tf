# The body of flexTemplates:launch, as in ../../cloud_scheduler_body.json. It needs no provider, so it
# can be tested without an account.

variable "job_name" {
  description = "Name of the job."
  type        = string
}

variable "template" {
  description = "Specification of the Flex Template, gs://BUCKET/.../NAME.json."
  type        = string
}

variable "parameters" {
  description = "Options of `beam-tfrecord convert` as text."
  type        = map(string)
}

variable "worker_service_account" {
  description = "Account of launcher and workers."
  type        = string
}

variable "temp" {
  description = "Folder for Dataflow's own files."
  type        = string
}

variable "subnetwork" {
  description = "regions/REGION/subnetworks/NAME, for workers without public addresses; empty for the default."
  type        = string
}

variable "max_workers" {
  description = "Maximum number of workers."
  type        = number
}

variable "most_hours" {
  description = "Dataflow cancels a job that takes longer."
  type        = number
}

variable "flexrs" {
  description = "Use FlexRS: the job costs less, and may wait for up to six hours."
  type        = bool
}

locals {
  environment = merge(
    {
      additionalExperiments = ["max_workflow_runtime_walltime_seconds=${3600 * var.most_hours}"]
      additionalUserLabels  = { application = "beam-tfrecord" }
      maxWorkers            = var.max_workers
      serviceAccountEmail   = var.worker_service_account
      stagingLocation       = "${var.temp}/staging"
      tempLocation          = "${var.temp}/temp"
    },
    # The command line's flag is COST_OPTIMIZED, the API's enum is FLEXRS_COST_OPTIMIZED.
    var.flexrs ? { flexrsGoal = "FLEXRS_COST_OPTIMIZED" } : {},
    var.subnetwork == "" ? {} : { subnetwork = var.subnetwork, ipConfiguration = "WORKER_IP_PRIVATE" },
  )
}

output "json" {
  description = "The body."
  value = jsonencode({
    launchParameter = {
      jobName              = var.job_name
      containerSpecGcsPath = var.template
      parameters           = var.parameters
      environment          = local.environment
    }
  })
}
