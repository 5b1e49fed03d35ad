"""The parts of the page of one object: panels, pods, cluster documents, links."""
