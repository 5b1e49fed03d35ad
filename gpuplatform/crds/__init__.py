"""From spec models to CustomResourceDefinitions. Pure."""
