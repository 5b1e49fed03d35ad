"""The parts of an object's page: panels, live data of the cluster, links to other objects."""
