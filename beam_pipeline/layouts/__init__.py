"""Layouts: the common ways to organise images and labels, a module each."""
