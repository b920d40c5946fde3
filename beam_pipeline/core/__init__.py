"""The logic of the conversion without Beam: values in, values out."""
