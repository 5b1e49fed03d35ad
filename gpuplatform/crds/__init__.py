"""Generates CustomResourceDefinitions from spec models. Pure."""
