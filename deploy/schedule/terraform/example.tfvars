project       = "my-project"
region        = "europe-west4"
template      = "gs://my-templates/beam-tfrecord.json"
repository    = "beam-tfrecord"
temp          = "gs://my-temp/beam-tfrecord"
subnetwork    = "regions/europe-west4/subnetworks/my-subnetwork"
input_buckets = ["my-photos"]

parameters = {
  images = "gs://my-photos/pets"
  output = "gs://my-sets/pets/{date}"
  name   = "pets"
  reuse  = "latest:gs://my-sets/pets"
  resume = "true"
}
